"""A training whose rank 1 (or the only rank) raises or hangs in the optimizer of step 3.

Arguments: configuration, raise | hang, folder for the process numbers, overrides. Rank R writes its process
number to FOLDER/R, and FOLDER/hanging when it hangs.
"""

import os
import sys
import time
from pathlib import Path

import torch

from mindspeed_llm import Trainer, TrainingArguments
from mindspeed_llm.models import AutoModelForCausalLM

config, mode, folder, *overrides = sys.argv[1:]
RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
(Path(folder) / str(RANK)).write_text(str(os.getpid()))


class FailingAdamW(torch.optim.AdamW):
    """Fails in its third step on the last rank."""

    steps = 0

    def step(self, closure=None):
        self.steps += 1
        if self.steps == 3 and RANK == SIZE - 1:
            if mode == "raise":
                raise ValueError("the third step fails")
            (Path(folder) / "hanging").write_text("")
            time.sleep(600)
        return super().step(closure)


args = TrainingArguments.from_yaml(config, overrides)
model = AutoModelForCausalLM.from_config(args.model, parallel_config=args.parallel)
Trainer(model=model, args=args, optimizer=FailingAdamW(model.parameters(), lr=1e-3)).train()
