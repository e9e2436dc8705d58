"""Which fused operators run as kernels on a device, and which fall back to plain ATen, and why."""

import torch

TRAINING_OPS = (
    "rms_norm",
    "add_rms_norm",
    "rotary_embedding",
    "swiglu",
    "flash_attention",
    "linear_cross_entropy",
)
# training.optimizer -> its operators; Muon leaves to AdamW what is no hidden matrix.
OPTIMIZER_OPS: dict[str, tuple[str, ...]] = {
    "adamw": ("adamw_",),
    "adamw_8bit": ("adamw_8bit_",),
    "lion": ("lion_",),
    "muon": ("muon_", "adamw_"),
}


def fused_kernels(device: torch.device, optimizer_ops: tuple[str, ...]) -> list[str]:
    """Phrases for the plan: what is on (with the instruction set), what is off and why.

    ``optimizer_ops``: those of the optimizer in use; none where a script brings its own.
    """
    key = {"cpu": "CPU", "cuda": "CUDA"}.get(device.type, "PrivateUse1")
    used = TRAINING_OPS + optimizer_ops
    on = [op for op in used if has_kernel(op, key)]
    off = [op for op in used if op not in on]
    where = f" ({torch.ops.mindspeed.isa_name()})" if device.type == "cpu" else ""
    phrases = [f"on{where}: {', '.join(on)}"] if on else []
    if off:
        phrases.append(f"off (no {device.type} kernel, plain ATen instead): {', '.join(off)}")
    return phrases


def has_kernel(op: str, dispatch_key: str) -> bool:
    """Whether an operator (or the forward half that its autograd formula calls) has a kernel there."""
    registered = torch._C._dispatch_has_kernel_for_dispatch_key
    names = torch._C._dispatch_get_all_op_names()
    halves = (f"mindspeed::{op}", f"mindspeed::{op}_forward")
    return any(name in names and registered(name, dispatch_key) for name in halves)
