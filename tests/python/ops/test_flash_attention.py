"""What the shared cases cannot say of flash attention: log-sum-exp, dropout, errors, the module."""

import pytest
import torch

from mindspeed_core.op_cases.flash_attention import bounds, heads, naive
from mindspeed_core.ops.flash_attention import FlashAttention, flash_attention

attention = torch.ops.mindspeed.flash_attention


@pytest.mark.parametrize("causal", [False, True])
def test_log_sum_exp(causal: bool):
    q, k, v = heads((2, 140), 16, 4, 2)(torch.float32)
    _, lse = attention(q, k, v, causal=causal)
    assert not lse.requires_grad
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
