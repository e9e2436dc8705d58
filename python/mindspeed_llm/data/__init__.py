"""Text to tokens and tokens to packed samples. C++ underneath, numpy arrays out; torch is not imported."""

from mindspeed_llm.data._data import DataError, IndexedDataset
from mindspeed_llm.data.packed_dataset import PackedDataset
from mindspeed_llm.data.prefetcher import Prefetcher
from mindspeed_llm.data.tokenizer import Tokenizer

__all__ = ["DataError", "IndexedDataset", "PackedDataset", "Prefetcher", "Tokenizer"]
