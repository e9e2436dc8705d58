"""Which samples a process sees in a step, read one step ahead.

Step s takes samples n, n + 1, ... of the run's order, where n is the number of samples before it; rank r
of R has the r-th contiguous part. So the order does not depend on the number of processes.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mindspeed_llm.world import World

MicroBatch = tuple[Any, Any, Any, Any]  # input_ids [B, S], labels [B, S], positions [T], cu_seqlens


class Batches:
    """Micro batches of this rank; the next step's are made in a thread while this one's are used."""

    def __init__(self, samples: Any, world: World, batch_size: int, micro_batch: int) -> None:
        self.samples, self.world = samples, world
        self.batch_size, self.micro_batch = batch_size, micro_batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._ahead: tuple[int, Future[list[MicroBatch]]] | None = None

    def prepare(self, first_sample: int) -> None:
        """Read the first step's batches now, so that bad data is told before anything is written.

        Raises:
            ConfigError: a token that the model does not have.
        """
        self._read_ahead(first_sample)
        assert self._ahead is not None
        self._ahead[1].result()

    def take(self, first_sample: int) -> list[MicroBatch]:
        """Micro batches of the step that begins at ``first_sample``."""
        if self._ahead is None or self._ahead[0] != first_sample:
            self._read_ahead(first_sample)
        assert self._ahead is not None
        batches = self._ahead[1].result()
        self._read_ahead(first_sample + self.batch_size)
        return batches

    def close(self) -> None:
        """End the reading thread."""
        self._thread.shutdown(cancel_futures=True)

    def _read_ahead(self, first_sample: int) -> None:
        self._ahead = first_sample, self._thread.submit(self._read, first_sample)

    def _read(self, first_sample: int) -> list[MicroBatch]:
        share = self.batch_size // self.world.size
        start = first_sample + self.world.rank * share
        return [
            self.samples.batch(range(first, first + self.micro_batch))
            for first in range(start, start + share, self.micro_batch)
        ]
