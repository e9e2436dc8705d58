"""Wrong inputs raise one clear message, the same in eager mode and on the meta device."""

import re
from collections.abc import Callable

import pytest
import torch

import mindspeed_core  # noqa: F401
from mindspeed_core.op_cases import muon
from mindspeed_core.op_cases.adamw import SETTINGS
from mindspeed_core.ops import (
    add_rms_norm,
    bias_dropout_add,
    bias_gelu,
    cross_entropy,
    gated_activation,
    geglu,
    label_log_probabilities,
    layer_norm,
    linear_cross_entropy,
    linear_weight_gradient_,
    rms_norm,
    rotary_embedding,
    scaled_masked_softmax,
    swiglu,
)

Make = Callable[..., torch.Tensor]


def adamw(**changed: object) -> None:
    lists = {name: [torch.zeros(3)] for name in ("params", "grads", "exp_avgs", "exp_avg_sqs")}
    settings = {"lr": 1.0, "beta1": 0.9, "beta2": 0.9, "eps": 1.0, "weight_decay": 0.0}
    arguments = {**lists, "masters": [], **settings, "step": 1, "grad_scale": 1.0, **changed}
    values = [arguments.pop(name) for name in [*lists, "masters"]]
    torch.ops.mindspeed.adamw_(*values, **arguments)


SHAPES_AND_DTYPES = [
    (
        lambda new: rms_norm(new(2, 8), new(7)),
        "rms_norm: weight must have shape [8], the last dim of x, got [7]",
    ),
    (
        lambda new: rms_norm(new(2, 8, dtype=torch.int32), new(8)),
        "rms_norm: x must be float32, bfloat16, float16 or float64, got Int",
    ),
    (
        lambda new: rms_norm(new(2, 8), new(8, dtype=torch.bfloat16)),
        "rms_norm: weight must be float32 or have the dtype of x (Float), got BFloat16",
    ),
    (lambda new: rms_norm(new(), new(1)), "rms_norm: x must have at least one dim, got a scalar"),
    (
        lambda new: add_rms_norm(new(2, 8), new(8), new(8)),
        "add_rms_norm: residual must have the shape of x [2, 8], got [8]",
    ),
    (
        lambda new: layer_norm(new(2, 8), new(8), new(1)),
        "layer_norm: bias must have shape [8], the last dim of x, got [1]",
    ),
    (
        lambda new: swiglu(new(2, 8), new(2, 9)),
        "swiglu: up must have the shape of gate [2, 8], got [2, 9]",
    ),
    (
        lambda new: geglu(new(2, 8), new(2, 8, dtype=torch.float16)),
        "geglu: up must have the dtype of gate (Float), got Half",
    ),
    (
        lambda new: geglu(new(2, 8), new(2, 8), "exact"),
        "geglu: approximate must be 'none' or 'tanh', got 'exact'",
    ),
    (
        lambda new: gated_activation(new(2, 7)),
        "gated_activation: gate_up must have an even last dim, gate and up side by side, got [2, 7]",
    ),
    (
        lambda new: gated_activation(new(2, 8), new(4)),
        "gated_activation: bias must have shape [8], the last dim of x, got [4]",
    ),
    (
        lambda new: gated_activation(new(2, 8), None, "relu"),
        "gated_activation: activation must be 'silu', 'gelu' or 'gelu_tanh', got 'relu'",
    ),
    (
        lambda new: bias_gelu(new(2, 8), None, "exact"),
        "bias_gelu: approximate must be 'none' or 'tanh', got 'exact'",
    ),
    (
        lambda new: bias_dropout_add(new(2, 8), None, new(2, 7), 0.1),
        "bias_dropout_add: residual must have the shape of x [2, 8], got [2, 7]",
    ),
    (
        lambda new: bias_dropout_add(new(2, 8), new(8), new(2, 8), 1.0),
        "bias_dropout_add: p must lie in [0, 1), got 1",
    ),
    (
        lambda new: scaled_masked_softmax(new(8)),
        "scaled_masked_softmax: x must have shape [..., S, L], got [8]",
    ),
    (
        lambda new: scaled_masked_softmax(new(2, 8), new(2, 8)),
        "scaled_masked_softmax: mask must be bool, true where a score is left out, got Float",
    ),
    (
        lambda new: scaled_masked_softmax(new(2, 8), new(2, 7, dtype=torch.bool)),
        "scaled_masked_softmax: mask must broadcast to the shape of x [2, 8], got [2, 7]",
    ),
    (
        lambda new: linear_weight_gradient_(new(3, 4), new(5, 3), new(6, 4)),
        "grad_out [..., O] and input [..., I] must agree in all dims but the last, got [5, 3] and "
        "[6, 4]",
    ),
    (
        lambda new: linear_weight_gradient_(new(4, 3), new(5, 3), new(5, 4)),
        "grad_weight must have shape [3, 4], the last dims of grad_out and input, got [4, 3]",
    ),
    (
        lambda new: linear_weight_gradient_(new(3, 4, dtype=torch.half), new(5, 3), new(5, 4)),
        "grad_weight must be Float or have the dtype of its operands (Float), got Half",
    ),
    (
        lambda new: rotary_embedding(new(4, 8), new(4, 2), new(4, 2)),
        "rotary_embedding: x must have shape [B, S, H, D] or [T, H, D] with H and D at least 1, "
        "got [4, 8]",
    ),
    (
        lambda new: rotary_embedding(new(4, 2, 8), new(4, 5), new(4, 5)),
        "rotary_embedding: cos and sin must have shape [P, R/2] with R at most the head size (8), "
        "got [4, 5]",
    ),
    (
        lambda new: rotary_embedding(new(4, 2, 8), new(3, 4), new(3, 4)),
        "rotary_embedding: cos and sin must have a row for each of the sequence's 4 places, got 3",
    ),
    (
        lambda new: rotary_embedding(new(4, 2, 8), new(3, 4), new(3, 4), new(3, dtype=torch.int32)),
        "rotary_embedding: positions must hold one number a token, shape [4] or flat, got [3]",
    ),
    (
        lambda new: cross_entropy(new(4, 8), new(3, dtype=torch.int64)),
        "cross_entropy: labels must have shape [4], one a row of logits, got [3]",
    ),
    (
        lambda new: cross_entropy(new(4, 8), new(4, dtype=torch.int32)),
        "cross_entropy: labels must be int64, got Int",
    ),
    (
        lambda new: cross_entropy(new(4, 8), new(4, dtype=torch.int64), label_smoothing=1.5),
        "cross_entropy: label_smoothing must lie in [0, 1], got 1.5",
    ),
    (
        lambda new: linear_cross_entropy(
            new(4, 8), new(9, 8), new(4, dtype=torch.int64), softcap=-30.0
        ),
        "linear_cross_entropy: softcap must be a finite number of at least 0 (0: off), got -30",
    ),
    (
        lambda new: linear_cross_entropy(
            new(4, 8), new(9, 8), new(4, dtype=torch.int64), z_loss=-1.0, reduction="none"
        ),
        "linear_cross_entropy: z_loss must be a finite number of at least 0 (0: off), got -1",
    ),
    (
        lambda new: label_log_probabilities(new(4, 8), new(0, 8), new(4, dtype=torch.int64)),
        "linear_cross_entropy: weight must have at least one row (a vocabulary), got [0, 8]",
    ),
]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("call", "message"), SHAPES_AND_DTYPES, ids=lambda value: str(value)[:40])
def test_wrong_shapes_and_dtypes(call: Callable[[Make], object], message: str, device: str):
    def new(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    with pytest.raises(ValueError, match=re.escape(message)):
        call(new)


@pytest.mark.parametrize("wrong", [-1, 8])
def test_label_outside_the_vocabulary(wrong: int):
    labels = torch.tensor([0, wrong, 7, -100])
    message = f"labels must lie in [0, 8) or be ignore_index (-100), got {wrong} in row 1"
    with pytest.raises(ValueError, match=re.escape(message)):
        cross_entropy(torch.zeros(4, 8), labels)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_position_outside_the_tables(wrong: int):
    positions = torch.tensor([0, 1, wrong], dtype=torch.int32)
    message = f"positions must lie in [0, 4), the rows of cos and sin, got {wrong}"
    with pytest.raises(ValueError, match=re.escape(message)):
        rotary_embedding(torch.zeros(3, 1, 8), torch.zeros(4, 4), torch.zeros(4, 4), positions)


def test_tables_with_gradients():
    table = torch.zeros(3, 4, requires_grad=True)
    with pytest.raises(ValueError, match="cos and sin must not require gradients"):
        rotary_embedding(torch.zeros(3, 1, 8), table, table)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": 0}, "adamw_: step must be at least 1, got 0"),
        ({"grads": []}, "adamw_: grads must have one tensor a parameter (1), got 0"),
        ({"grads": [torch.zeros(4)]}, "adamw_: grads must have the shape of params [3], got [4]"),
        (
            {"exp_avgs": [torch.zeros(6)[::2]]},
            "adamw_: exp_avgs must be contiguous, got strides [2] at index 0",
        ),
        ({"lr": -0.1}, "adamw_: lr must be a finite number of at least 0, got -0.1"),
        ({"beta2": 1.0}, "adamw_: beta2 must lie in [0, 1), got 1"),
        (
            {"params": [torch.zeros(3, dtype=torch.int32)]},
            "adamw_: params must all be float32, float64, bfloat16 or float16 and of one dtype,"
            " got Int at index 0",
        ),
        (
            {"grads": [torch.zeros(3).half()]},
            "adamw_: grads must be Float where params are Float, got Half",
        ),
        (
            {"params": [torch.zeros(3).half()], "grads": [torch.zeros(3).half()]},
            "adamw_: masters must have one tensor a parameter (1), got 0",
        ),
        (
            {"masters": [torch.zeros(3)]},
            "adamw_: masters must be empty for Float params, which are updated themselves, got 1",
        ),
    ],
)
def test_wrong_lists_of_adamw(changed: dict[str, object], message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        adamw(**changed)


def test_muon_refuses_what_is_not_a_matrix():
    lists = [[torch.zeros(3)] for _ in range(3)]
    message = "muon_: params must be matrices, got shape [3] at index 0; update others with adamw_"
    with pytest.raises(ValueError, match=re.escape(message)):
        torch.ops.mindspeed.muon_(*lists, [], **muon.SETTINGS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"codes": torch.zeros(300, dtype=torch.int8)},
            "adamw_8bit_: exp_avgs must be Byte where params are Float, got Char",
        ),
        (
            {"scales": torch.zeros(1)},
            "adamw_8bit_: exp_avg_scales must be contiguous float32 of shape [2] (one a block of"
            " 256 elements) on cpu, got Float [1] at index 0",
        ),
        (
            {"dtype": torch.float64},
            "adamw_8bit_: params must be float32, bfloat16 or float16, got Double; use adamw_",
        ),
    ],
)
def test_wrong_lists_of_adamw_8bit(changed: dict[str, object], message: str):
    values = torch.zeros(300, dtype=changed.get("dtype", torch.float32))
    codes, scales = torch.zeros(300, dtype=torch.uint8), torch.zeros(2)
    first = changed.get("codes", codes), changed.get("scales", scales)
    lists = [[tensor] for tensor in (values, values, *first, codes, scales)]
    with pytest.raises(ValueError, match=re.escape(message)):
        torch.ops.mindspeed.adamw_8bit_(*lists, [], **SETTINGS)


def test_wrong_dtype_of_squared_norm():
    with pytest.raises(ValueError, match="squared_norm: tensors must be float32"):
        torch.ops.mindspeed.squared_norm([torch.zeros(3), torch.zeros(3, dtype=torch.int32)])
