"""What the shared cases cannot say of flash attention: log-sum-exp, dropout, errors, the module, any combination."""

import random
import re

import pytest
import torch
from measure import assert_as_exact_as_naive, outputs_and_gradients, to_float64
from test_reference import References
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from mindspeed_core.op_cases.flash_attention import CASES, bounds, heads, naive
from mindspeed_core.ops import scaled_dot_product_attention
from mindspeed_core.ops.flash_attention import FlashAttention, alibi_slopes, flash_attention

attention = torch.ops.mindspeed.flash_attention


@pytest.mark.parametrize("causal", [False, True])
def test_log_sum_exp(causal: bool):
    q, k, v = heads((2, 140), 16, 4, 2)(torch.float32)
    lse = attention(q, k, v, causal=causal)[1].detach()
    exact = torch.einsum("bshd,blhd->bhsl", q.double(), k.double().repeat_interleave(2, 2)) / 4
    if causal:
        exact = exact.masked_fill(~torch.ones(140, 140, dtype=torch.bool).tril(), -torch.inf)
    exact = exact.logsumexp(-1)
    bound = torch.finfo(torch.float32).eps * 16**0.5 * exact.abs().max()
    assert (lse - exact).abs().max() <= bound


def test_a_query_without_keys_gives_zero():
    q, k, v = heads((1, 5), 8, keys=2)(torch.float32)
    out, lse = attention(q, k, v, causal=True)
    assert torch.equal(out[:, :3], torch.zeros(1, 3, 2, 8))
    assert torch.equal(lse[..., :3], torch.full((1, 2, 3), -torch.inf))
    (grad_q,) = torch.autograd.grad(out.sum(), q)
    assert torch.equal(grad_q[:, :3], torch.zeros(1, 3, 2, 8))


def test_a_document_does_not_see_its_neighbours():
    q, k, v = (x.detach() for x in heads((150,), 16)(torch.float32))
    alone = flash_attention(q[100:], k[100:], v[100:], cu_seqlens=bounds(50), causal=True)
    packed = flash_attention(q, k, v, cu_seqlens=bounds(100, 50), causal=True)
    assert torch.equal(packed[100:], alone)


def kept_weights(dropout: float, seed: int, length: int, num_heads: int = 2) -> torch.Tensor:
    """The attention weights after dropout [H, S, L], read off with V = 1."""
    q = torch.zeros(1, length, num_heads, 4)
    v = torch.eye(length).view(1, length, 1, length).expand(1, length, num_heads, length)
    return attention(q, q, v.contiguous(), dropout=dropout, seed=seed)[0][0].transpose(0, 1)


def test_dropout_keeps_its_share_and_its_mean():
    length, p = 200, 0.3
    weights = kept_weights(p, 7, length) * length
    share = (weights == 0).double().mean()
    samples = weights.numel()
    assert abs(share - p) < 5 * (p * (1 - p) / samples) ** 0.5
    values = weights[weights != 0]
    bound = 4 * torch.finfo(torch.float32).eps * values.max()
    assert (values - 1 / (1 - p)).abs().max() <= bound
    # heads, queries and keys are dropped independently: no row or column is hit much more than another
    for dims in ((0, 1), (0, 2), (1, 2)):
        means = (weights == 0).double().mean(dims)
        spread = (p * (1 - p) / (samples / means.numel())) ** 0.5
        assert (means - p).abs().max() < 5 * spread


def test_dropout_is_a_function_of_its_seed_alone():
    dropped = kept_weights(0.5, 3, 150)
    assert torch.equal(dropped, kept_weights(0.5, 3, 150))
    assert not torch.equal(dropped, kept_weights(0.5, 4, 150))
    assert not torch.equal(dropped, kept_weights(0.5, 3 + 2**32, 150))
    shorter = kept_weights(0.5, 3, 100)  # other tiles, the same mask
    assert torch.equal(dropped[:, :100, :100] == 0, shorter == 0)


def test_gradients_with_dropout_match_the_formula_with_the_same_mask():
    length, p = 140, 0.4
    inputs = [x.detach().requires_grad_() for x in heads((1, length), 16, 2, 2)(torch.float32)]
    mask = (kept_weights(p, 11, length) != 0).double() / (1 - p)
    grad = torch.randn(1, length, 2, 16, generator=torch.Generator().manual_seed(0))

    # the plain form of flash attention's own backward, with the mask put in
    def formula(q, k, v):
        scores = torch.einsum("bshd,blhd->bhsl", q, k) / 4
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        factors = mask.to(q.dtype)
        out = torch.einsum("bhsl,blhe->bshe", weights * factors, v)
        cotangent = grad.to(q.dtype)
        delta = (cotangent * out).sum(-1).transpose(1, 2)
        grad_p = torch.einsum("bshe,blhe->bhsl", cotangent, v) * factors
        grad_scores = weights * (grad_p - delta.unsqueeze(-1)) / 4
        grad_q = torch.einsum("bhsl,blhd->bshd", grad_scores, k)
        grad_k = torch.einsum("bhsl,bshd->blhd", grad_scores, q)
        grad_v = torch.einsum("bhsl,bshe->blhe", weights * factors, cotangent)
        return [out, grad_q, grad_k, grad_v]

    with torch.no_grad():
        exact = formula(*(x.double() for x in inputs))
        plain = formula(*inputs)
    out, _ = attention(*inputs, dropout=p, seed=11)
    ours = [out.detach(), *torch.autograd.grad(out, inputs, grad)]
    largest = max(truth.abs().max() for truth in exact)
    for got, same, truth in zip(ours, plain, exact, strict=True):
        bound = 2 * (same - truth).abs().max() + torch.finfo(torch.float32).eps * largest
        assert (got - truth).abs().max() <= bound


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q[0], k, v), "must be \\[batch, sequence, heads, size\\]"),
        (lambda q, k, v: (q, k.double(), v), "must have one dtype"),
        (lambda q, k, v: (q, k[..., :3], v), "head size"),
        (lambda q, k, v: (q[:, :, :1], k, v), "must be a multiple of the number of key/value"),
        (lambda q, k, v: (q, k[:, :2], v), "must agree in all but the last dim"),
    ],
)
def test_wrong_shapes_are_refused(change, message: str):
    q, k, v = heads((2, 4), 8, 4, 2)(torch.float32)
    with pytest.raises(ValueError, match=message):
        attention(*change(q, k, v))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([0, 3], r"must run from 0 to the number of tokens \(4\), got 0 to 3"),
        ([1, 4], "got 1 to 4"),
        ([0, 3, 2, 4], "must not fall, got 3 then 2 at 2"),
    ],
)
def test_wrong_cumulative_lengths_are_refused(lengths: list[int], message: str):
    q, k, v = heads((4,), 8)(torch.float32)
    cu_seqlens = torch.tensor(lengths, dtype=torch.int32)
    with pytest.raises(ValueError, match=message):
        flash_attention(q, k, v, cu_seqlens=cu_seqlens)


SETTINGS_REFUSED = [
    ({"window_left": -2}, "window bounds must be at least 0, or -1 for none, got (-2, -1)"),
    ({"window_right": -5}, "window bounds must be at least 0, or -1 for none, got (-1, -5)"),
    ({"softcap": -1.0}, "softcap must be positive, or 0 for none, got -1"),
    ({"softcap": float("inf")}, "softcap must be positive, or 0 for none, got inf"),
    (
        {"alibi_slopes": torch.ones(3)},
        "alibi_slopes must have shape [4], one a query head, got [3]",
    ),
    (
        {"alibi_slopes": torch.ones(4).double()},
        "alibi_slopes must be Float with q of Float, got Double",
    ),
    (
        {"alibi_slopes": torch.ones(4, requires_grad=True)},
        "alibi_slopes must not require gradients; pass alibi_slopes.detach()",
    ),
    ({"sinks": torch.ones(4, 1)}, "sinks must have shape [4], one a query head, got [4, 1]"),
    ({"sinks": torch.ones(4).half()}, "sinks must be Float with q of Float, got Half"),
]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("settings", "message"), SETTINGS_REFUSED, ids=lambda value: str(value)[:40]
)
def test_wrong_settings_are_refused(settings, message: str, device: str):
    q, k, v = (x.to(device) for x in heads((2, 4), 8, 4, 2)(torch.float32))
    moved = {
        name: x.detach().to(device).requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x
        for name, x in settings.items()
    }
    with pytest.raises(ValueError, match=re.escape(f"flash_attention: {message}")):
        attention(q, k, v, **moved)


def test_a_window_of_one_number_is_refused():
    q, k, v = heads((1, 4), 8)(torch.float32)
    with pytest.raises(ValueError, match=r"window_size must be \(left, right\), got \(3,\)"):
        flash_attention(q, k, v, window_size=(3,))


def test_wrong_dropout_is_refused():
    q, k, v = heads((1, 4), 8)(torch.float32)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1"):
        flash_attention(q, k, v, dropout=1.0)


def test_module_is_projections_around_the_formula():
    torch.manual_seed(0)
    module = FlashAttention(48, 6, num_key_value_heads=2, bias=True).double()
    x = torch.randn(2, 10, 48, dtype=torch.float64)
    q, k, v = (p(x).unflatten(-1, (-1, 8)) for p in (module.q_proj, module.k_proj, module.v_proj))
    expected = module.o_proj(naive(q, k, v, causal=True).flatten(-2))
    torch.testing.assert_close(module(x), expected)
    documents = module(x, cu_seqlens=bounds(10, 4, 6))
    torch.testing.assert_close(documents[0], expected[0])
    torch.testing.assert_close(documents[1, :4], expected[1, :4])
    torch.testing.assert_close(documents[1, 4:], module(x[1:, 4:])[0])


def test_module_drops_in_training_only_and_by_torchs_seed():
    module = FlashAttention(32, 4, dropout=0.5)
    x = torch.randn(1, 20, 32)
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(module(x))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    module.eval()
    assert torch.equal(module(x), module(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((30, 4), r"num_heads \(4\) must divide hidden_size \(30\)"),
        ((32, 4, 3), r"num_key_value_heads \(3\) must divide num_heads \(4\)"),
        ((32, 4, 4, 1.5), r"dropout must be in \[0, 1\), got 1.5"),
    ],
)
def test_module_refuses_sizes_that_do_not_divide(arguments, message: str):
    with pytest.raises(ValueError, match=message):
        FlashAttention(*arguments)


def test_module_compiles_without_graph_break():
    module = FlashAttention(32, 4, num_key_value_heads=2)
    x = torch.randn(2, 9, 32)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    results = []
    for function in (module, compiled):
        module.zero_grad()
        out = function(x)
        out.square().sum().backward()
        results.append([out.detach(), *[p.grad.clone() for p in module.parameters()]])
    for eager, fused in zip(*results, strict=True):
        assert torch.equal(eager, fused)


FEATURED = ["small, every feature", "packed, every feature"]


@pytest.mark.parametrize("case", FEATURED)
def test_opcheck_with_every_feature(case: str):
    torch.library.opcheck(attention.default, CASES.cases[case](torch.float32))


@pytest.mark.parametrize("case", FEATURED)
def test_every_feature_compiles_without_graph_break(case: str):
    def both_outputs(*inputs):
        return attention(*inputs)

    compiled = torch.compile(both_outputs, backend="aot_eager", fullgraph=True)
    inputs = CASES.cases[case](torch.float32)
    eager = outputs_and_gradients(both_outputs, inputs)
    for got, want in zip(outputs_and_gradients(compiled, inputs), eager, strict=True):
        assert torch.equal(got, want)


def test_gradcheck_of_log_sum_exp():
    inputs = CASES.cases["small, every feature"](torch.float64)
    assert torch.autograd.gradcheck(lambda *x: attention(*x)[1], inputs)


def test_second_derivatives_are_refused():
    q, k, v = heads((1, 4), 8)(torch.float32)
    out, _ = attention(q, k, v)
    (gradient,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match=r"is not implemented|does not require grad"):
        gradient.sum().backward()


def test_backward_with_the_log_sum_exp_of_more_keys():
    """Halves of the keys, each with the whole's log-sum-exp, sum up to the whole's gradients: ring attention."""
    for dtype in (torch.float32, torch.float64):  # kernel and reference
        q, k, v = (x.detach() for x in heads((1, 40), 16, keys=60)(dtype))
        out, lse = attention(q, k, v)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(dtype)
        backward = torch.ops.mindspeed.flash_attention_backward
        whole = backward(grad, q, k, v, out, lse)
        halves = [
            backward(grad, q, k[:, part], v[:, part], out, lse)
            for part in (slice(0, 25), slice(25, 60))
        ]
        summed = [
            halves[0][0] + halves[1][0],
            *(torch.cat([halves[0][i], halves[1][i]], 1) for i in (1, 2)),
        ]
        for got, want in zip(summed, whole, strict=True):
            bound = 8 * torch.finfo(dtype).eps * want.abs().max()  # a sum of 60 terms in two orders
            assert (got - want).abs().max() <= bound


def test_the_sinks_gradient_is_the_same_on_any_number_of_threads():
    # one head and many queries: torch would split this sum among its threads
    q, k, v = (x.detach().requires_grad_() for x in heads((1, 40_000), 1, 1)(torch.float32))
    sinks = torch.ones(1, requires_grad=True)
    before, gradients = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out, _ = attention(q, k, v, sinks=sinks, window_left=0, window_right=0)
            gradients += torch.autograd.grad(out.sum(), sinks)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[0], gradients[2])


def any_layout(choose: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Random numbers of this shape, dense or not."""
    dims = list(range(len(shape)))
    if choose.random() < 0.5:  # heads before tokens, as transposed projections have them
        dims[-3], dims[-2] = dims[-2], dims[-3]
    stored = [shape[dim] for dim in dims]
    stored[-1] *= choose.choice([1, 1, 2])
    generator = torch.Generator().manual_seed(choose.randrange(2**31))
    dense = torch.randn(stored, generator=generator).to(dtype).permute(dims)
    gap = (
        dense[..., : shape[-1]] if choose.random() < 0.7 else dense[..., :: stored[-1] // shape[-1]]
    )
    return gap.requires_grad_()


def any_call(seed: int):
    """(operator of q, k, v and sinks, these, dropout) of random shapes, strides, dtype and settings."""
    choose = random.Random(seed)
    dtype = choose.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    key_value_heads, group = choose.choice([1, 2]), choose.choice([1, 2, 3])
    num_heads = key_value_heads * group
    head_size, value_size = choose.choice([1, 8, 20, 33]), choose.choice([1, 16, 24])
    documents = choose.choice([0, 1, 4])  # 0: batched
    settings: dict[str, object] = {
        "causal": choose.random() < 0.5,
        "scale": choose.choice([None, 0.3]),
        "dropout": choose.choice([0.0, 0.0, 0.3]),
        "seed": seed,
        "alibi_slopes": choose.choice([None, alibi_slopes(num_heads)]),
        "window_left": choose.choice([-1, 0, 7, 150]),
        "window_right": choose.choice([-1, 0, 5, 130]),
        "softcap": choose.choice([0.0, 3.0]),
    }
    if documents:
        queries, keys = ([choose.choice([0, 1, 40, 140]) for _ in range(documents)] for _ in "qk")
        settings |= {"cu_seqlens_q": bounds(*queries), "cu_seqlens_k": bounds(*keys)}
        query_sizes, key_sizes = (sum(queries),), (sum(keys),)
    else:
        batch = choose.choice([1, 2])
        query_sizes, key_sizes = ((batch, choose.choice([1, 30, 100, 290])) for _ in "qk")
    inputs = [
        any_layout(choose, (*query_sizes, num_heads, head_size), dtype),
        any_layout(choose, (*key_sizes, key_value_heads, head_size), dtype),
        any_layout(choose, (*key_sizes, key_value_heads, value_size), dtype),
    ]
    if choose.random() < 0.5:
        inputs.append(torch.randn(num_heads, generator=torch.Generator().manual_seed(seed)))
        inputs[-1].requires_grad_()

    def call(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None = None):
        out, lse = attention(q, k, v, sinks=sinks, **settings)
        return out, lse.masked_fill(lse.isneginf(), 0)

    return call, tuple(inputs), settings["dropout"]


def largest_product(v: Tensor, cotangent: Tensor) -> float:
    """The size of the inner products dO V^T, which the gradient of the scores is a difference of."""
    if v.numel() == 0 or cotangent.numel() == 0:
        return 0.0
    rows, values = (x.detach().float().abs().flatten(0, -2) for x in (cotangent, v))
    return (rows @ values.t()).max().item()


@pytest.mark.parametrize("seed", range(32))
def test_any_combination_is_as_exact_as_the_reference(seed: int):
    call, inputs, dropout = any_call(seed)
    exact = outputs_and_gradients(call, to_float64(inputs))
    with References() as mode:
        plain = outputs_and_gradients(call, inputs)
    assert mode.used >= {"flash_attention_forward", "flash_attention_backward"}
    ours = outputs_and_gradients(call, inputs)
    cotangent = torch.randn(ours[0].shape, generator=torch.Generator().manual_seed(99))
    sizes = [truth.abs().max().item() for truth in exact if truth.numel()]
    largest = max([*sizes, largest_product(inputs[2], cotangent) / (1 - dropout)])
    for place, (got, same, truth) in enumerate(zip(ours, plain, exact, strict=True)):
        assert got.shape == truth.shape
        if got.numel() == 0:
            continue
        error = (got.double() - truth).abs().max().item()
        bound = (
            2 * (same.double() - truth).abs().max().item() + torch.finfo(got.dtype).eps * largest
        )
        assert error <= bound, f"result {place}: error {error:.3g}, bound {bound:.3g}"


@pytest.mark.parametrize(
    ("queries", "keys", "num_heads", "key_value_heads", "value_size", "arguments"),
    [
        (50, 50, 2, 2, 16, {}),
        (50, 50, 2, 2, 16, {"is_causal": True}),
        (50, 130, 2, 2, 16, {"is_causal": True}),
        (130, 50, 2, 2, 16, {"is_causal": True}),
        (50, 50, 4, 2, 16, {"is_causal": True, "enable_gqa": True, "scale": 0.4}),
        (50, 60, 2, 2, 24, {}),
    ],
)
def test_scaled_dot_product_attention_is_torchs(
    queries: int, keys: int, num_heads: int, key_value_heads: int, value_size: int, arguments
):
    made = heads((2, queries), 16, num_heads, key_value_heads, keys, value_size)(torch.float32)
    inputs = tuple(x.detach().transpose(1, 2).contiguous().requires_grad_() for x in made)
    assert_as_exact_as_naive(
        lambda *x: scaled_dot_product_attention(*x, **arguments),
        lambda *x: torch_attention(*x, **arguments),
        inputs,
    )


def test_scaled_dot_product_attention_drops_by_torchs_seed():
    q, k, v = (x.detach().transpose(1, 2) for x in heads((1, 40), 16)(torch.float32))
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(scaled_dot_product_attention(q, k, v, dropout_p=0.5, enable_gqa=True))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (
            lambda q: q,
            {"attn_mask": torch.ones(4, 4, dtype=torch.bool)},
            "attn_mask must be None, got a mask of shape [4, 4]",
        ),
        (lambda q: q[0], {}, "query must be [batch, heads, sequence, size], got [4, 4, 8]"),
        (lambda q: q, {}, "query and key must have as many heads, got 4 and 2; set enable_gqa"),
    ],
)
def test_scaled_dot_product_attention_refuses(change, arguments, message: str):
    q, k, v = (x.transpose(1, 2) for x in heads((2, 4), 8, 4, 2)(torch.float32))
    with pytest.raises(ValueError, match=re.escape(f"scaled_dot_product_attention: {message}")):
        scaled_dot_product_attention(change(q), k, v, **arguments)


def test_slopes_are_the_papers():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    # 12 heads: those of 8, then the 1st, 3rd, 5th and 7th of 16
    assert alibi_slopes(12).tolist() == pytest.approx(
        [2.0**-i for i in range(1, 9)] + [2 ** -(i + 0.5) for i in range(4)], rel=2**-23
    )
    with pytest.raises(ValueError, match="num_heads must be at least 1, got 0"):
        alibi_slopes(0)


def test_module_with_every_feature():
    torch.manual_seed(0)
    module = FlashAttention(
        48, 6, num_key_value_heads=2, window_size=(3, 0), softcap=2.0, alibi=True, sinks=True
    ).double()
    assert module.sinks is not None
    torch.nn.init.normal_(module.sinks)
    x = torch.randn(2, 10, 48, dtype=torch.float64)
    q, k, v = (p(x).unflatten(-1, (-1, 8)) for p in (module.q_proj, module.k_proj, module.v_proj))
    features = {"slopes": alibi_slopes(6), "sinks": module.sinks, "left": 3, "softcap": 2.0}
    expected = module.o_proj(naive(q, k, v, causal=True, **features).flatten(-2))
    torch.testing.assert_close(module(x), expected)
    module(x).sum().backward()
    assert module.sinks.grad is not None and module.sinks.grad.any()
    assert module.bfloat16()(x.bfloat16()).dtype == torch.bfloat16
