"""Batches made ahead of their use in a thread."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mindspeed_llm.data.packed_dataset import PackedDataset


class Prefetcher:
    """Yields ``dataset.batch(samples)`` for each list of sample numbers in ``order``, in that order.

    Args:
        dataset: where the samples come from.
        order: sample numbers of each batch; may be endless.
        depth: batches made ahead.
    """

    def __init__(
        self, dataset: PackedDataset, order: Iterable[Iterable[int]], depth: int = 2
    ) -> None:
        if depth < 1:
            raise ValueError(f"Prefetcher: depth must be at least 1, got {depth}")
        self._dataset, self._order = dataset, iter(order)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._ahead: deque[Future[dict[str, Any]]] = deque()
        for _ in range(depth):
            self._submit()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        if not self._ahead:
            self.close()
            raise StopIteration
        batch = self._ahead.popleft().result()
        self._submit()
        return batch

    def close(self) -> None:
        """End the thread; batches made ahead are dropped."""
        self._ahead.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self) -> None:
        samples = next(self._order, None)
        if samples is not None:
            self._ahead.append(self._thread.submit(self._dataset.batch, list(samples)))
