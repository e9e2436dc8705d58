"""``FSDPModule``: full sharding of any ``nn.Module`` over the C++ ``ShardedUnit``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable
from torch.nn.modules.module import _IncompatibleKeys
from torch.utils._pytree import tree_flatten, tree_map

from mindspeed_core import _C

STRATEGIES = {
    "full": "parameters, gradients and optimizer state are sharded (ZeRO-3)",
    "grad": "gradients and optimizer state are sharded; parameters stay whole from forward to backward",
    "none": "nothing is sharded; gradients are averaged after backward, as in DDP",
}
PRECISIONS = {None: None, "fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class _Unit:
    """A group of modules whose parameters are gathered together, and where its backward stands."""

    def __init__(self, parameters: list[nn.Parameter], group: Any, dtype: torch.dtype | None):
        self.parameters = parameters
        self.sharded = _C.ShardedUnit(parameters, group, dtype)
        self.trainable = [parameter for parameter in parameters if parameter.requires_grad]
        self.arrived = 0

    def take_gradient(self) -> bool:
        """Counts an arrived gradient; True with the last one."""
        self.arrived += 1
        return self.arrived == len(self.trainable)


class FSDPModule(nn.Module):
    """Wraps a module so that each data parallel rank keeps a shard of it.

    Args:
        model: any module with float32 parameters, equal on all ranks. Units that are gathered together
            are the elements of its ``nn.ModuleList``s; the rest, tied parameters included, is one more
            unit, whole from forward to the end of backward. All ranks must run the same modules.
        shard_strategy: "full", "grad" or "none", see ``STRATEGIES``.
        mixed_precision: "fp16" or "bf16" runs the module in that dtype (floating inputs are cast);
            parameters, gradients and optimizer state stay float32. None or "fp32": float32.
        process_group: default: the default group; without one, a single process.

    ``parameters()`` are this rank's shards, so an optimizer made from them updates shards. Gradients
    are *averaged* over the ranks, as in DDP, and accumulate over backward passes until
    ``optimizer.zero_grad()``. ``state_dict()`` gathers whole tensors and must be called on all ranks.

    Raises:
        ValueError: an unknown strategy or precision, or a parameter that is not float32.
    """

    def __init__(
        self,
        model: nn.Module,
        shard_strategy: str = "full",
        mixed_precision: str | None = None,
        process_group: dist.ProcessGroup | None = None,
    ):
        super().__init__()
        if shard_strategy not in STRATEGIES:
            raise ValueError(
                f"shard_strategy must be one of {', '.join(STRATEGIES)}, got {shard_strategy!r}"
            )
        if mixed_precision not in PRECISIONS:
            names = ", ".join(name for name in PRECISIONS if name)
            raise ValueError(f"mixed_precision must be one of {names}, got {mixed_precision!r}")
        _check_parameters(model)
        self.module = model
        self.shard_strategy = shard_strategy
        self.compute_dtype = PRECISIONS[mixed_precision]
        self._group = process_group if process_group is not None else _group_of_this_job()
        # Units that are not sharded are sharded over one process: cast to the compute dtype, that is.
        self._shard_group = _group_of_one() if shard_strategy == "none" else self._group
        self._shapes = {name: p.shape for name, p in model.named_parameters()}
        self._units: list[_Unit] = []
        self._gradients: dict[nn.Parameter, torch.Tensor] = {}
        self._finish_is_queued = False
        self._cut_into_units(model)

    # ---- construction

    def _cut_into_units(self, model: nn.Module) -> None:
        taken: set[nn.Parameter] = set()
        blocks: list[tuple[nn.Module, _Unit]] = []
        for block in _repeated_blocks(model):
            mine = [p for p in dict.fromkeys(block.parameters()) if p not in taken]
            shared = _used_elsewhere(model, block)
            mine = [p for p in mine if p not in shared]
            taken.update(mine)
            if mine:
                blocks.append((block, self._new_unit(mine)))
        rest = [p for p in dict.fromkeys(model.parameters()) if p not in taken]
        self._root = self._new_unit(rest) if rest else None
        for block, unit in blocks:
            block.register_forward_pre_hook(self._enter(unit), with_kwargs=True, prepend=True)
            block.register_forward_hook(self._leave(unit))

    def _new_unit(self, parameters: list[nn.Parameter]) -> _Unit:
        unit = _Unit(parameters, self._shard_group, self.compute_dtype)
        self._units.append(unit)
        for parameter in unit.trainable:
            parameter.register_post_accumulate_grad_hook(self._gradient_hook(unit))
        return unit

    # ---- forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's forward, with its parameters gathered as they are needed."""
        if self.compute_dtype is not None:
            args, kwargs = tree_map(self._cast, (args, kwargs))
        if self._root is not None:
            self._gather(self._root)
        output = self.module(*args, **kwargs)
        if not torch.is_grad_enabled():
            self._release_all()
        elif self._root is not None:
            self._before_backward(self._root, output)
        return output

    def _cast(self, value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.to(self.compute_dtype) if floating else value

    def _gather(self, unit: _Unit) -> None:
        # A whole parameter must not meet the gradient of its shard: keep that until backward is over.
        if not unit.sharded.is_gathered:
            for parameter in unit.parameters:
                if parameter.grad is not None:
                    self._gradients[parameter] = parameter.grad
        unit.sharded.gather()

    def _enter(self, unit: _Unit) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: Any, _kwargs: Any) -> None:
            self._gather(unit)

        return hook

    def _leave(self, unit: _Unit) -> Callable[..., None]:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            # Inside backward this is a recomputed forward, whose parameters are about to be used again.
            may_release = self.shard_strategy == "full" and not self._finish_is_queued
            if may_release or not torch.is_grad_enabled():
                unit.sharded.release()
            if torch.is_grad_enabled():
                self._before_backward(unit, output)

        return hook

    # ---- backward

    def _before_backward(self, unit: _Unit, output: Any) -> None:
        """Gather ``unit`` as soon as a gradient reaches its output."""

        def hook(_gradient: torch.Tensor) -> None:
            self._queue_finish()
            if not unit.sharded.is_gathered:
                self._gather(unit)

        for tensor in tree_flatten(_tensors_of(output))[0]:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(hook)

    def _gradient_hook(self, unit: _Unit) -> Callable[[torch.Tensor], None]:
        def hook(_parameter: torch.Tensor) -> None:
            if unit.take_gradient() and unit is not self._root:
                self._reduce(unit)

        return hook

    def _reduce(self, unit: _Unit) -> None:
        unit.arrived = 0
        unit.sharded.start_gradient_reduction(1.0 / self._shard_group.size())
        unit.sharded.release()

    def _queue_finish(self) -> None:
        if not self._finish_is_queued:
            self._finish_is_queued = True
            Variable._execution_engine.queue_callback(self._finish_backward)

    def _finish_backward(self) -> None:
        """After backward: reduce what is left (a parameter that got no gradient counts as zero)."""
        self._finish_is_queued = False
        for unit in self._units:
            if unit.sharded.is_gathered:
                self._reduce(unit)
        for unit in self._units:
            unit.sharded.finish_gradient_reduction()
            unit.sharded.attach_gradients()
        if self._shard_group is not self._group:
            self._average_gradients()
        for unit in self._units:
            for parameter in unit.parameters:
                earlier = self._gradients.pop(parameter, None)
                if earlier is not None and parameter.grad is not None:
                    parameter.grad = earlier + parameter.grad
                elif earlier is not None:
                    parameter.grad = earlier
            gradients = [p.grad if p.requires_grad else None for p in unit.parameters]
            unit.sharded.zero_gradients()
            for parameter, gradient in zip(unit.parameters, gradients, strict=True):
                parameter.grad = gradient

    def _average_gradients(self) -> None:
        """The mean over ranks of whole gradients."""
        every = [parameter for unit in self._units for parameter in unit.trainable]
        gradients = [parameter.grad for parameter in every if parameter.grad is not None]
        works = [self._group.allreduce([gradient]) for gradient in gradients]
        for work, gradient in zip(works, gradients, strict=True):
            work.wait()
            gradient.div_(self._group.size())

    # ---- whole tensors

    def _release_all(self) -> None:
        for unit in self._units:
            unit.sharded.release()
            for parameter in unit.parameters:
                if parameter in self._gradients:
                    parameter.grad = self._gradients.pop(parameter)

    @contextmanager
    def whole_parameters(self) -> Iterator[None]:
        """Inside, parameters are whole (to read, in the compute dtype); on all ranks together."""
        for unit in self._units:
            self._gather(unit)
        try:
            yield
        finally:
            self._release_all()

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The wrapped module's state, whole float32 tensors under its own names, on every rank."""
        if args or kwargs:
            raise ValueError("FSDPModule.state_dict takes no arguments")
        self._release_all()
        state = {name: buffer.detach().clone() for name, buffer in self.module.named_buffers()}
        shards = dict(self.module.named_parameters(remove_duplicate=False))
        persistent = self.module.state_dict().keys()
        whole = {
            name: _gather_rows(p, self._shapes_of(name), self._shard_group)
            for name, p in shards.items()
        }
        return {name: (whole | state)[name] for name in persistent}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True, **_: Any) -> Any:  # type: ignore[override]
        """Take this rank's shards from whole tensors. Only ``strict=True`` is supported.

        Raises:
            ValueError: other names or shapes than the module's; nothing has been changed then.
        """
        if not strict:
            raise ValueError("FSDPModule.load_state_dict must be strict")
        own = dict(self.module.named_parameters(remove_duplicate=False))
        own_buffers = dict(self.module.named_buffers())
        persistent = set(self.module.state_dict().keys())
        if persistent != set(state_dict):
            odd = sorted(persistent ^ set(state_dict))
            raise ValueError(f"state_dict must have the module's names; differs in {odd[0]}")
        self._release_all()
        rank, size = self._shard_group.rank(), self._shard_group.size()
        for name, value in state_dict.items():
            shape = self._shapes_of(name) if name in own else own_buffers[name].shape
            if value.shape != shape:
                raise ValueError(f"{name} must have shape {list(shape)}, got {list(value.shape)}")
        with torch.no_grad():
            for name, value in state_dict.items():
                if name in own:
                    start, length = _C.shard_rows(value.shape[0], rank, size)
                    own[name].copy_(value[start : start + length])
                else:
                    own_buffers[name].copy_(value)
        return _IncompatibleKeys([], [])

    def _shapes_of(self, name: str) -> torch.Size:
        if name in self._shapes:
            return self._shapes[name]
        tied = self.module.get_parameter(name)
        return next(self._shapes[other] for other, p in self.module.named_parameters() if p is tied)


def _check_parameters(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32 or parameter.dim() == 0:
            raise ValueError(
                f"{name}: FSDPModule takes float32 parameters of at least one dim, got"
                f" {parameter.dtype} {list(parameter.shape)}; call model.float() first"
            )


def _group_of_this_job() -> Any:
    if dist.is_available() and dist.is_initialized():
        return dist.group.WORLD
    return _group_of_one()  # so that there is a single code path


def _group_of_one() -> Any:
    store = dist.HashStore()
    group = dist.ProcessGroup(store, 0, 1)
    kind = dist.ProcessGroup.BackendType.GLOO
    backend = dist.ProcessGroupGloo(store, 0, 1, timeout=timedelta(seconds=60))
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, backend)
    return group


def _repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Elements of the outermost ``nn.ModuleList``s: the layers of a model."""
    blocks: list[nn.Module] = []
    for child in model.children():
        blocks += list(child) if isinstance(child, nn.ModuleList) else _repeated_blocks(child)
    return blocks


def _used_elsewhere(model: nn.Module, block: nn.Module) -> set[nn.Parameter]:
    """Parameters of ``block`` that a module outside it also uses (tied weights)."""
    inside = set(block.modules())
    outside: set[nn.Parameter] = set()
    for module in model.modules():
        if module not in inside:
            outside.update(module._parameters.values())  # type: ignore[arg-type]
    return outside.intersection(block.parameters())


def _tensors_of(output: Any) -> Any:
    """What pytree can walk: a mapping-like model output becomes a plain dict."""
    return dict(output) if hasattr(output, "items") else output


def _gather_rows(shard: torch.Tensor, shape: torch.Size, group: Any) -> torch.Tensor:
    size = group.size()
    rows = -(-shape[0] // size)
    padded = torch.zeros(rows, *shape[1:], dtype=shard.dtype, device=shard.device)
    padded[: shard.shape[0]] = shard.detach()
    pieces = [torch.empty_like(padded) for _ in range(size)]
    group.allgather([pieces], [padded]).wait()
    return torch.cat(pieces)[: shape[0]]
