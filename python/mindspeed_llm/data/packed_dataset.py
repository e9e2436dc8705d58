"""Packed training samples out of token files."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mindspeed_llm.data import _data

Source = str | os.PathLike[str] | Mapping[str, Any]


class PackedDataset:
    """Rows of ``seq_len`` tokens, each a pure function of ``(seed, sample number)``.

    Documents are joined and cut; document boundaries are kept as ``cu_seqlens``. There is no last sample:
    after an epoch (:meth:`samples_per_epoch`) the corpus is cut anew from another place.

    Args:
        sources: a prefix of .bin/.idx files, or a list of prefixes or ``{"path": ..., "weight": ...}``.
        seq_len: tokens in a row.
        seed: key of the order.
        cross_documents: let attention and labels run across documents.

    Raises:
        DataError: unreadable files, or a corpus shorter than one row.
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        seq_len: int,
        seed: int = 0,
        cross_documents: bool = False,
    ) -> None:
        if isinstance(sources, str | os.PathLike | Mapping):
            sources = [sources]
        self.sources = [_path_and_weight(source) for source in sources]
        self.seq_len, self.seed = seq_len, seed
        self._core = _data.PackedDataset(
            self.sources, seq_len, seed % 2**64, cross_documents=cross_documents
        )

    def batch(self, samples: Iterable[int]) -> dict[str, npt.NDArray[Any]]:
        """Samples by number: the rows of one micro batch.

        Returns:
            ``input_ids``, ``labels`` [B, S] int64 (labels already shifted: what each token predicts, -100
            where that is another document's), ``positions`` [B*S] int32 (from 0 in each document),
            ``cu_seqlens`` [pieces + 1] int32 over the flattened tokens.
        """
        return self._core.batch(list(samples))

    def sample(self, number: int) -> dict[str, npt.NDArray[Any]]:
        """One sample: ``input_ids``, ``labels``, ``positions`` [S] and its ``cu_seqlens``."""
        row = self.batch([number])
        return {**row, "input_ids": row["input_ids"][0], "labels": row["labels"][0]}

    def samples_per_epoch(self, source: int = 0) -> int:
        """Whole rows in one pass over a source."""
        return self._core.samples_per_epoch(source)

    @property
    def num_tokens(self) -> int:
        """Tokens of all sources."""
        return self._core.num_tokens

    @property
    def vocab_upper_bound(self) -> int:
        """Largest token id of all sources: the model's vocabulary must be larger."""
        return self._core.largest_id

    def token_blocks(self, block_tokens: int = 1 << 20) -> Iterable[npt.NDArray[np.int64]]:
        """All tokens of all sources in file order, in blocks."""
        for path, _ in self.sources:
            source = _data.IndexedDataset(path)
            for start in range(0, source.num_tokens, block_tokens):
                yield source.read(start, min(block_tokens, source.num_tokens - start))


def _path_and_weight(source: Source) -> tuple[str, float]:
    if isinstance(source, Mapping):
        return os.fspath(source["path"]), float(source.get("weight", 1.0))
    return os.fspath(source), 1.0
