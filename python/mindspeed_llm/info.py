"""``mindspeed info``: what is installed, what is wrong and how to mend it."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mindspeed_llm.config_table import config_table


class Finding(NamedTuple):
    """One line of the check; ``cure`` is empty when all is well."""

    subject: str
    state: str
    cure: str = ""


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed info``; exit code 1 when something needs mending."""
    parser = argparse.ArgumentParser(prog="mindspeed info", description=__doc__)
    parser.add_argument(
        "--config", action="store_true", help="list every configuration key instead"
    )
    if parser.parse_args(argv).config:
        print(config_table())
        return 0
    wrong = 0
    for finding in findings():
        print(f"{'ok  ' if not finding.cure else 'BAD '}{finding.subject:<16}{finding.state}")
        if finding.cure:
            wrong += 1
            print(f"    {'':<16}mend: {finding.cure}")
    print("all is well" if wrong == 0 else f"{wrong} to mend")
    return 0 if wrong == 0 else 1


def findings() -> Iterator[Finding]:
    """Every check; one that itself fails becomes a finding."""
    checks: list[tuple[str, Callable[[], Finding], str]] = [
        ("python", _python, "install Python 3.10 or newer"),
        ("torch", _torch, "pip install 'torch>=2.11,<2.16'"),
        ("engine", _engine, "make build"),
        ("kernels", _kernels, "make build"),
        ("pool", _pool, "make build"),
        ("data module", _data, "make build"),
        ("process group", _process_group, "install a torch built with distributed and Gloo"),
        ("precision", _precision, ""),
        ("compiler", _compiler, "apt-get install g++ (12 or newer); needed to build only"),
    ]
    for subject, check, cure in checks:
        try:
            yield check()
        except Exception as error:  # whatever is broken is what the user wants to hear of
            yield Finding(subject, f"{type(error).__name__}: {str(error).splitlines()[0]}", cure)


def _python() -> Finding:
    return Finding("python", sys.version.split()[0])


def _torch() -> Finding:
    import torch

    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    cure = (
        "" if (2, 11) <= version < (2, 16) else "pip install 'torch>=2.11,<2.16', then make build"
    )
    return Finding("torch", f"{torch.__version__}, {torch.get_num_threads()} threads", cure)


def _engine() -> Finding:
    import mindspeed_core

    return Finding("engine", f"{mindspeed_core.__version__} at {mindspeed_core._C.__file__}")


def _kernels() -> Finding:
    import torch

    import mindspeed_core  # noqa: F401  (registers the operators)
    from mindspeed_llm.kernels import OPTIMIZER_OPS, TRAINING_OPS, fused_kernels, has_kernel

    optimizer_ops = tuple(dict.fromkeys(op for ops in OPTIMIZER_OPS.values() for op in ops))
    missing = [op for op in TRAINING_OPS + optimizer_ops if not has_kernel(op, "CPU")]
    cure = f"no CPU kernel for {', '.join(missing)}: make build" if missing else ""
    return Finding("kernels", "; ".join(fused_kernels(torch.device("cpu"), optimizer_ops)), cure)


def _pool() -> Finding:
    import torch

    from mindspeed_core import _C

    _C.pool_enable()
    tensor = torch.empty(2**20)
    used = _C.pool_statistics()["in_use_bytes"]
    cure = (
        "" if used >= tensor.numel() * 4 else "the pool does not serve torch's tensors; make build"
    )
    return Finding("pool", f"serves large CPU buffers ({used >> 20} MiB in use)", cure)


def _data() -> Finding:
    import mindspeed_llm.data as data

    return Finding("data module", f"at {data.__path__[0]}")


def _process_group() -> Finding:
    import torch.distributed as dist

    names = [name for name in ("gloo", "nccl", "hccl") if _has_backend(dist, name)]
    cure = "" if "gloo" in names else "install a torch built with Gloo"
    return Finding("process group", ", ".join(names) or "none", cure)


def _has_backend(dist: object, name: str) -> bool:
    available = getattr(dist, "is_backend_available", None)
    return bool(available(name)) if available is not None else False


def _precision() -> Finding:
    import torch

    from mindspeed_llm.precision import choose_precision

    devices = [torch.device("cpu")]
    if torch.cuda.is_available():
        devices.append(torch.device("cuda"))
    chosen = (choose_precision("auto", device) for device in devices)
    return Finding("precision", "; ".join(f"{name} ({reason})" for name, reason in chosen))


def _compiler() -> Finding:
    path = shutil.which("g++") or shutil.which("clang++")
    if path is None:
        raise FileNotFoundError("no C++ compiler on PATH")
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return Finding("compiler", answer.stdout.splitlines()[0])
