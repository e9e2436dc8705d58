"""The fused AdamW against torch's optimizer, over steps."""

import torch

import mindspeed_core  # noqa: F401

SHAPES = [(33, 17), (257,), (1,), (40, 1000)]


def test_follows_torch_adamw_over_steps():
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in SHAPES]
    theirs = [torch.nn.Parameter(p.clone()) for p in start]
    exact = [torch.nn.Parameter(p.double()) for p in start]
    settings = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    torch_adamw = torch.optim.AdamW(theirs, foreach=False, fused=False, **settings)
    exact_adamw = torch.optim.AdamW(exact, foreach=False, fused=False, **settings)
    ours = [torch.nn.Parameter(p.clone()) for p in start]
    exp_avgs = [torch.zeros_like(p) for p in start]
    exp_avg_sqs = [torch.zeros_like(p) for p in start]
    for step in range(1, 21):
        grads = [torch.randn(shape) for shape in SHAPES]
        for t, e, g in zip(theirs, exact, grads, strict=True):
            t.grad, e.grad = g * 0.5, (g * 0.5).double()
        torch_adamw.step()
        exact_adamw.step()
        torch.ops.mindspeed.adamw_(
            ours,
            grads,
            exp_avgs,
            exp_avg_sqs,
            [],
            lr=1e-2,
            beta1=0.9,
            beta2=0.95,
            eps=1e-8,
            weight_decay=0.1,
            step=step,
            grad_scale=0.5,
        )
    for o, t, e in zip(ours, theirs, exact, strict=True):
        ulp = torch.finfo(torch.float32).eps * e.abs().max().item()
        error = (o.double() - e).abs().max().item()
        torch_error = (t.double() - e).abs().max().item()
        assert error <= 2 * torch_error + ulp


def test_a_later_backward_notices_the_update():
    p = torch.nn.Parameter(torch.ones(4))
    loss = p.square().sum()
    zeros = [torch.zeros(4)], [torch.zeros(4)]
    torch.ops.mindspeed.adamw_(
        [p],
        [torch.ones(4)],
        *zeros,
        [],
        lr=0.1,
        beta1=0.9,
        beta2=0.9,
        eps=1e-8,
        weight_decay=0.0,
        step=1,
        grad_scale=1.0,
    )
    try:
        loss.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("backward used a parameter that had been overwritten")
