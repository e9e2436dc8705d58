"""Rotary position embedding."""

import torch

from mindspeed_core.op_cases import OperatorCases, random, strided, total_bytes


def tables(positions: int, pairs: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The cosines and sines of every position's angles, float32 unless the activations are float64."""
    table_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    frequencies = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / max(pairs, 1))
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
    return angles.cos().to(table_dtype), angles.sin().to(table_dtype)


def naive(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    interleaved: bool = False,
) -> torch.Tensor:
    """The formula as Hugging Face's LLaMA writes it: x cos + rotate_half(x) sin, in the dtype of x."""
    tokens = x.shape[:-2]
    rows = torch.arange(x.shape[-3]) if positions is None else positions.reshape(tokens).long()
    half = cos.shape[1]
    cos_rows = cos[rows].unsqueeze(-2).to(x.dtype)
    sin_rows = sin[rows].unsqueeze(-2).to(x.dtype)
    rotated, rest = x[..., : 2 * half], x[..., 2 * half :]
    if interleaved:
        cos_rows = cos_rows.repeat_interleave(2, -1)
        sin_rows = sin_rows.repeat_interleave(2, -1)
        turned = torch.stack((-rotated[..., 1::2], rotated[..., ::2]), -1).flatten(-2)
    else:
        cos_rows = torch.cat((cos_rows, cos_rows), -1)
        sin_rows = torch.cat((sin_rows, sin_rows), -1)
        turned = torch.cat((-rotated[..., half:], rotated[..., :half]), -1)
    return torch.cat((rotated * cos_rows + turned * sin_rows, rest), -1)


POSITIONS = torch.tensor([0, 1, 2, 0, 1, 0, 0, 1, 2, 3], dtype=torch.int32)  # restart at documents

CASES = OperatorCases(
    operator=torch.ops.mindspeed.rotary_embedding,
    naive=naive,
    covers=("rotary_embedding", "rotary_embedding_backward", "rotary_embedding_"),
    cases={
        **{
            f"head size {size}, {layout}": lambda dtype, size=size, interleaved=interleaved: (
                random(2, 5, 3, size, dtype=dtype),
                *tables(8, size // 2, dtype),
                None,
                interleaved,
            )
            for size in (2, 16, 30, 66, 256)
            for layout, interleaved in (("halves", False), ("interleaved", True))
        },
        "one token": lambda dtype: (random(1, 1, 1, 64, dtype=dtype), *tables(1, 32, dtype)),
        "part of the head": lambda dtype: (random(7, 2, 33, dtype=dtype), *tables(9, 11, dtype)),
        "nothing rotated": lambda dtype: (random(3, 2, 5, dtype=dtype), *tables(3, 0, dtype)),
        "packed positions": lambda dtype: (
            random(10, 3, 32, dtype=dtype),
            *tables(4, 16, dtype),
            POSITIONS,
        ),
        "batch of positions": lambda dtype: (
            random(2, 5, 3, 32, dtype=dtype),
            *tables(4, 16, dtype),
            POSITIONS.view(2, 5),
            True,
        ),
        "long head, interleaved": lambda dtype: (
            random(3, 1, 700, dtype=dtype),
            *tables(3, 350, dtype),
            None,
            True,
        ),
        "empty": lambda dtype: (random(0, 4, 3, 32, dtype=dtype), *tables(4, 16, dtype)),
        "strided": lambda dtype: (strided(2, 5, 3, 32, dtype=dtype), *tables(5, 16, dtype)),
    },
    bench={
        "2x1024x8x64": lambda dtype: (
            random(2, 1024, 8, 64, dtype=dtype),
            *tables(1024, 32, dtype),
        ),
        "1x4096x32x128": lambda dtype: (
            random(1, 4096, 32, 128, dtype=dtype),
            *tables(4096, 64, dtype),
        ),
    },
    bytes_moved=lambda x, cos, sin: 4 * total_bytes(x),
)
