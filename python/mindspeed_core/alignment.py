"""Sizes that a matrix unit multiplies fast, and layers padded to them without changing what they compute.

A matrix unit works on tiles (16 x 16 in Ascend's Cube unit); a size that is no multiple of the tile leaves part of the
last one idle or runs through slower code. ``GOOD_MULTIPLES`` is the one table of good multiples; ``AlignedLinear`` and
``AlignedVocabulary`` hold zero rows and columns up to the next multiple. The padding stays zero (its gradient is zero)
and never reaches a state dict. This lives in Python because it is about modules, parameters and their state dicts; the
products are torch's on any device.
"""

import torch
from torch import Tensor, nn

import mindspeed_core  # noqa: F401  (loads libmindspeed, which knows the CPU's instruction set)
from mindspeed_core.ops.linear_cross_entropy import linear_cross_entropy

__all__ = [
    "GOOD_MULTIPLES",
    "AlignedLinear",
    "AlignedVocabulary",
    "aligned_size",
    "good_multiple",
    "pad_parts",
    "strip_parts",
]

# matrix unit -> dtype -> elements. NPU: Ascend's Cube unit multiplies tiles of 16 x 16, of 32 inner elements for int8.
# CUDA: 16 bytes for tensor cores, float32 as TF32 (NVIDIA, Matrix Multiplication Background User's Guide). CPU: one
# vector of float32, which 16-bit kernels widen to.
GOOD_MULTIPLES: dict[str, dict[torch.dtype, int]] = {
    "npu": {torch.float16: 16, torch.bfloat16: 16, torch.float32: 16, torch.int8: 32},
    "cuda": {torch.float16: 8, torch.bfloat16: 8, torch.float32: 4, torch.int8: 16},
    "avx512": {torch.float16: 16, torch.bfloat16: 16, torch.float32: 16, torch.float64: 8},
    "avx2": {torch.float16: 8, torch.bfloat16: 8, torch.float32: 8, torch.float64: 4},
    "baseline": {torch.float16: 4, torch.bfloat16: 4, torch.float32: 4, torch.float64: 2},
}


def good_multiple(device: torch.device | str, dtype: torch.dtype) -> int:
    """The multiple that sizes of a matrix of this dtype should have on this device.

    Raises ValueError for a device or dtype that ``GOOD_MULTIPLES`` does not know.
    """
    kind = torch.device(device).type
    unit = torch.ops.mindspeed.isa_name() if kind == "cpu" else kind
    if unit not in GOOD_MULTIPLES:
        raise ValueError(
            f"good_multiple: device must be cpu, cuda or npu, got {kind}; give the multiple yourself"
        )
    if dtype not in GOOD_MULTIPLES[unit]:
        known = ", ".join(str(known) for known in GOOD_MULTIPLES[unit])
        raise ValueError(f"good_multiple: dtype must be one of {known} on {kind}, got {dtype}")
    return GOOD_MULTIPLES[unit][dtype]


def aligned_size(size: int, multiple: int) -> int:
    """The smallest multiple that is at least size. Raises ValueError for a multiple below 1."""
    if multiple < 1:
        raise ValueError(f"aligned_size: multiple must be at least 1, got {multiple}")
    return -(-size // multiple) * multiple


def pad_parts(x: Tensor, dim: int, parts: int, multiple: int) -> Tensor:
    """Pad each of ``parts`` equal parts of a dim with zeros up to the next multiple.

    Parts are what is used apart: the heads of a projection, gate and up of a packed one. Differentiable. Returns x
    where nothing is missing. Raises ValueError unless parts divides the dim.
    """
    dim %= x.dim()
    if x.shape[dim] % parts:
        raise ValueError(
            f"pad_parts: parts must divide the dim's size ({x.shape[dim]}), got {parts}"
        )
    size = x.shape[dim] // parts
    missing = aligned_size(size, multiple) - size
    if missing == 0:
        return x
    split = x.unflatten(dim, (parts, size))
    shape = list(split.shape)
    shape[dim + 1] = missing
    return torch.cat((split, split.new_zeros(shape)), dim + 1).flatten(dim, dim + 1)


def strip_parts(x: Tensor, dim: int, parts: int, size: int) -> Tensor:
    """The inverse of ``pad_parts``: the first ``size`` of each part; a view where there is one part."""
    dim %= x.dim()
    if x.shape[dim] == parts * size:
        return x
    if parts == 1:
        return x.narrow(dim, 0, size)
    return x.unflatten(dim, (parts, -1)).narrow(dim + 1, 0, size).flatten(dim, dim + 1)


class _PaddedModule(nn.Module):
    """Parameters with zero padding that their state dict does not show.

    ``_parts`` holds for each parameter its padded dims and their numbers of parts, ``_true_shapes`` the shape without
    padding.
    """

    def __init__(self, multiple: int) -> None:
        super().__init__()
        self.multiple = multiple
        self._parts: dict[str, dict[int, int]] = {}
        self._true_shapes: dict[str, tuple[int, ...]] = {}
        self.register_state_dict_post_hook(_strip_state)
        self.register_load_state_dict_pre_hook(_pad_state)

    def _add_padded(self, name: str, parameter: Tensor, parts: dict[int, int]) -> None:
        self._parts[name] = parts
        self._true_shapes[name] = tuple(parameter.shape)
        padded = self._pad(name, parameter.detach()).clone()
        self.register_parameter(name, nn.Parameter(padded, parameter.requires_grad))

    def _pad(self, name: str, tensor: Tensor) -> Tensor:
        for dim, parts in self._parts[name].items():
            tensor = pad_parts(tensor, dim, parts, self.multiple)
        return tensor

    def _strip(self, name: str, tensor: Tensor) -> Tensor:
        for dim, parts in self._parts[name].items():
            tensor = strip_parts(tensor, dim, parts, self._true_shapes[name][dim] // parts)
        return tensor


def _strip_state(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    assert isinstance(module, _PaddedModule)
    for name in module._parts:
        state[prefix + name] = module._strip(name, state[prefix + name]).contiguous()


def _pad_state(
    module: nn.Module,
    state: dict[str, Tensor],
    prefix: str,
    _metadata: object,
    _strict: bool,
    _missing: list[str],
    _unexpected: list[str],
    errors: list[str],
) -> None:
    assert isinstance(module, _PaddedModule)
    for name, shape in module._true_shapes.items():
        key = prefix + name
        if key not in state:
            continue
        if tuple(state[key].shape) == shape:
            state[key] = module._pad(name, state[key])
        else:
            found = list(state.pop(key).shape)
            errors.append(f"{key} must have its shape without padding {list(shape)}, got {found}")


class AlignedLinear(_PaddedModule):
    """A linear layer whose weight is padded with zeros to multiples: x [..., I] to [..., O].

    Made from an ``nn.Linear``, whose numbers it takes over; its state dict has the linear's names and shapes.
    ``multiple``: ``good_multiple`` of the weight's device and dtype unless given. ``in_parts``, ``out_parts``: equal
    parts of the input and the output that are padded each for itself: heads, or gate and up.

    The input may come with or without the padding. With ``keep_padding`` the output keeps it (zeros), so that the next
    layer's product is aligned without a copy; what stands between must map zeros to zeros (activations, gated
    activations, rotation, and attention with the scale of the true head size do).
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        linear: nn.Linear,
        multiple: int | None = None,
        in_parts: int = 1,
        out_parts: int = 1,
        keep_padding: bool = False,
    ) -> None:
        weight = linear.weight
        super().__init__(multiple or good_multiple(weight.device, weight.dtype))
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.in_parts = in_parts
        self.out_parts = out_parts
        self.keep_padding = keep_padding
        self._add_padded("weight", weight, {0: out_parts, 1: in_parts})
        if linear.bias is None:
            self.register_parameter("bias", None)
        else:
            self._add_padded("bias", linear.bias, {0: out_parts})

    def forward(self, x: Tensor) -> Tensor:
        """x [..., I], or [..., I padded]. Raises ValueError for another last dim."""
        if x.shape[-1] == self.in_features:
            x = pad_parts(x, -1, self.in_parts, self.multiple)
        elif x.shape[-1] != self.weight.shape[1]:
            raise ValueError(
                f"AlignedLinear: x must have a last dim of {self.in_features}, or {self.weight.shape[1]} with "
                f"padding, got {x.shape[-1]}"
            )
        y = nn.functional.linear(x, self.weight, self.bias)
        if self.keep_padding:
            return y
        return strip_parts(y, -1, self.out_parts, self.out_features // self.out_parts)

    def extra_repr(self) -> str:
        """What print(module) adds."""
        shape = "x".join(str(size) for size in self.weight.shape)
        return f"{self.in_features}, {self.out_features}, weight={shape}, multiple={self.multiple}"


class AlignedVocabulary(_PaddedModule):
    """A token table [V, N] padded with zero rows, as embedding and as output layer.

    Made from an ``nn.Embedding``, whose numbers it takes over; its state dict has the embedding's name and shape. Rows
    of the padding are looked up by no token, and their logits take no part in the loss: they are never computed there.
    """

    weight: Tensor

    def __init__(self, embedding: nn.Embedding, multiple: int | None = None) -> None:
        weight = embedding.weight
        super().__init__(multiple or good_multiple(weight.device, weight.dtype))
        self.vocab_size = embedding.num_embeddings
        self._add_padded("weight", weight, {0: 1})

    def true_weight(self) -> Tensor:
        """The table without padding [V, N]: a view, contiguous and differentiable."""
        return self.weight.narrow(0, 0, self.vocab_size)

    def forward(self, input_ids: Tensor) -> Tensor:
        """The rows of int64 input_ids [...]: [..., N]. Raises IndexError for an id outside [0, V)."""
        return nn.functional.embedding(input_ids, self.true_weight())

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., N] times the table: [..., V], a view of the padded product."""
        return nn.functional.linear(hidden, self.weight).narrow(-1, 0, self.vocab_size)

    def loss(self, hidden: Tensor, labels: Tensor, ignore_index: int = -100) -> Tensor:
        """Mean cross entropy of the V true logits (see ``linear_cross_entropy``), which are never all there."""
        return linear_cross_entropy(hidden, self.true_weight(), labels, ignore_index)
