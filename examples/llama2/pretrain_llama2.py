"""Pretrains LLaMA 2: torchrun --nproc_per_node=8 pretrain_llama2.py --config llama2_config.yaml."""

import argparse

import torch

from mindspeed_llm import Trainer, TrainingArguments
from mindspeed_llm.models import AutoModelForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", default="llama2_config.yaml", help="YAML file")
parser.add_argument("overrides", nargs="*", metavar="section.key=value")
options = parser.parse_args()

args = TrainingArguments.from_yaml(options.config, options.overrides)
model = AutoModelForCausalLM.from_config(args.model, parallel_config=args.parallel, use_flash_attention=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=args.training.lr)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100000)
trainer = Trainer(model=model, args=args, optimizer=optimizer, lr_scheduler=scheduler)
trainer.train()
