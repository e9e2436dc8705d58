"""What torch asks of an operator: fakes, autograd registration, tracing, compilation."""

import importlib

import pytest
import torch

import mindspeed_core  # noqa: F401
from mindspeed_core.op_cases import operator_cases, operator_names
from mindspeed_core.op_cases.adamw import SETTINGS

DIFFERENTIABLE = [name for name in operator_names() if operator_cases(name).differentiable]


def small_case(name: str) -> str:
    """The first case: a small one."""
    return next(iter(operator_cases(name).cases))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradcheck(name: str):
    cases = operator_cases(name)
    for case, make in cases.cases.items():
        inputs = make(torch.float64)
        differentiated = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
        if 0 < sum(x.numel() for x in differentiated) <= 150:
            assert torch.autograd.gradcheck(cases.operator, inputs), case


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_opcheck(name: str):
    cases = operator_cases(name)
    chosen = [small_case(name), *[c for c in ("strided", "empty") if c in cases.cases]]
    for case in chosen:
        operator = getattr(torch.ops.mindspeed, name).default
        torch.library.opcheck(operator, cases.cases[case](torch.float32))


@pytest.mark.parametrize("name", ["adamw", "adamw_8bit", "lion", "muon"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck_of_optimizers(name: str, dtype: torch.dtype):
    module = importlib.import_module(f"mindspeed_core.op_cases.{name}")
    settings = getattr(module, "SETTINGS", SETTINGS)
    lists = module.lists_of((33, 1), (5, 3), dtype=dtype)
    torch.library.opcheck(getattr(torch.ops.mindspeed, f"{name}_").default, lists, settings)


def test_opcheck_of_squared_norm():
    tensors = operator_cases("squared_norm").cases["odd sizes"](torch.float32)
    torch.library.opcheck(torch.ops.mindspeed.squared_norm.default, tensors)


@pytest.mark.parametrize("name", operator_names())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiles_without_graph_break(name: str):
    cases = operator_cases(name)
    if not cases.differentiable:
        return  # an optimizer's operators run outside the compiled model
    make = cases.cases[small_case(name)]
    torch.compiler.reset()  # each operator is a recompilation of the same wrapper, and those are limited
    compiled = torch.compile(cases.operator, backend="aot_eager", fullgraph=True)
    for function in (cases.operator, compiled):
        inputs = make(torch.float32)
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum(output.float().sum() for output in outputs if output.requires_grad).backward()
        results = [*outputs, *[x.grad for x in inputs if isinstance(x, torch.Tensor)]]
        if function is cases.operator:
            expected = results
    for got, want in zip(results, expected, strict=True):
        assert (got is None and want is None) or torch.equal(got, want)


class Block(torch.nn.Module):
    """A transformer's elementwise parts in one module."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(32))
        self.up = torch.nn.Linear(32, 48)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ops = torch.ops.mindspeed
        turned = ops.rotary_embedding(x.view(-1, 6, 2, 16), cos, sin).view(x.shape)
        normed, total = ops.add_rms_norm(turned, x, self.weight)
        gate, up = self.up(normed).chunk(2, -1)
        return ops.swiglu(gate, up).sum() + ops.rms_norm(total, self.weight).square().sum()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_module_compiles_without_graph_break(dynamic: bool):
    torch.manual_seed(0)
    block = Block()
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    angles = torch.arange(6.0)[:, None] * torch.arange(1.0, 9.0)
    for batch in (2, 3):
        x = torch.randn(batch, 6, 32)
        results = []
        for module in (block, compiled):
            leaf = x.clone().requires_grad_()
            block.zero_grad()
            loss = module(leaf, angles.cos(), angles.sin())
            loss.backward()
            results.append([loss.detach(), leaf.grad, *[p.grad for p in block.parameters()]])
        for eager, fused in zip(*results, strict=True):
            bound = torch.finfo(torch.float32).eps * eager.abs().max() * 32
            assert (eager - fused).abs().max() <= bound


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives_are_refused(name: str):
    cases = operator_cases(name)
    if name in ("flash_attention", "grouped_gemm", "linear_cross_entropy"):
        return  # their own tests say what they do
    inputs = cases.cases[small_case(name)](torch.float32)
    outputs = cases.operator(*inputs)
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    (gradient,) = torch.autograd.grad(first.sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match=r"is not implemented|does not require grad"):
        gradient.sum().backward()
