"""The configured corpora as torch tensors, checked against the model and the tokenizer before training."""

from pathlib import Path

import torch

from mindspeed_llm.batches import MicroBatch
from mindspeed_llm.config import TrainingArguments
from mindspeed_llm.data import PackedDataset, Tokenizer
from mindspeed_llm.errors import ConfigError, UserError


class Samples:
    """Packed samples by number; see ``mindspeed_llm.data.PackedDataset``."""

    def __init__(self, dataset: PackedDataset, description: str) -> None:
        self.dataset, self.description = dataset, description

    def batch(self, numbers: range) -> MicroBatch:
        """input_ids [B, S], labels [B, S] (already shifted), positions [B*S], cu_seqlens."""
        arrays = self.dataset.batch(numbers)
        names = ("input_ids", "labels", "positions", "cu_seqlens")
        input_ids, labels, positions, bounds = (torch.from_numpy(arrays[name]) for name in names)
        return input_ids, labels, positions, bounds

    def describe(self) -> str:
        """A phrase for the plan."""
        return self.description


def open_samples(args: TrainingArguments) -> Samples:
    """Open the corpora of ``data.train``.

    Raises:
        ConfigError: missing or unreadable files, fewer tokens than a sample, or ids that the model does
            not have.
    """
    data, training, model = args.data, args.training, args.model
    if not data.train:
        raise ConfigError(
            f"{args.where('data.train')} must be given: the PREFIX of the files that"
            " `mindspeed preprocess` wrote (PREFIX.bin, PREFIX.idx)"
        )
    for source in data.train:
        for suffix in (".idx", ".bin"):
            if not Path(source.path + suffix).is_file():
                raise ConfigError(
                    f"{args.where('data.train')}: {source.path}{suffix} does not exist; make it with"
                    " `mindspeed preprocess --input FILE --output-prefix PREFIX ...`"
                )
    corpora = [{"path": source.path, "weight": source.weight} for source in data.train]
    try:
        dataset = PackedDataset(corpora, training.seq_len, training.seed, data.cross_documents)
        largest = dataset.vocab_upper_bound
    except UserError as error:
        hint = f" (training.seq_len: {training.seq_len})" if "sequence" in str(error) else ""
        raise ConfigError(f"{args.where('data.train')}: {error}{hint}") from None
    if largest >= model.vocab_size:
        raise ConfigError(
            f"{args.where('model.vocab_size').removesuffix('model.vocab_size')}model.vocab_size"
            f" ({model.vocab_size}) must be above the largest token of data.train ({largest}); use the"
            " vocabulary size of the tokenizer that made the data"
        )
    _check_tokenizer(args, largest)
    names = ", ".join(source.path for source in data.train)
    unit = "attention across documents" if data.cross_documents else "attention within documents"
    return Samples(dataset, f"{names}: {dataset.num_tokens:,} tokens, packed, {unit}")


def _check_tokenizer(args: TrainingArguments, largest: int) -> None:
    path, where = args.data.tokenizer, args.where("data.tokenizer")
    if path is None:
        return
    if not Path(path).is_file():
        raise ConfigError(
            f"{where}: {path} does not exist; give a tokenizer.json, or leave the key out"
        )
    try:
        size = Tokenizer.from_file(path).vocab_size
    except UserError as error:
        raise ConfigError(f"{where}: {error}") from None
    if size > args.model.vocab_size:
        raise ConfigError(
            f"{where} has {size} tokens, which must fit model.vocab_size ({args.model.vocab_size});"
            f" set model.vocab_size: {size}"
        )
    if largest >= size:
        raise ConfigError(
            f"{where} has {size} tokens, but data.train holds token {largest}; give the tokenizer that"
            " made the data"
        )
