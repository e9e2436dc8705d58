"""Where the seeds of dropout come from when the caller gives none."""

import torch


def draw_seed() -> int:
    """A seed from torch's default generator, so that torch.manual_seed repeats a run's dropout."""
    return int(torch.randint(2**62, (), dtype=torch.int64, device="cpu").item())
