"""A rank of test_fsdp_module: trains a module on this rank's rows, writes losses and final whole parameters.

Arguments: output file, model (mlp, llama), strategy, precision (fp32, bf16, fp16), accumulation, wrap (0: plain).
"""

import sys

import torch
import torch.distributed as dist
from torch import nn

from mindspeed_llm.parallel import FSDPModule

ROWS, STEPS = 12, 4


class Residual(nn.Module):
    """A block with odd sizes, a buffer and a bias."""

    def __init__(self, size: int, inner: int):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, inner)
        self.down = nn.Linear(inner, size, bias=False)
        self.register_buffer("factor", torch.tensor([0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x + factor * mlp(norm(x))."""
        return x + self.factor.to(x.dtype) * self.down(torch.relu(self.up(self.norm(x))))


class Mlp(nn.Module):
    """Blocks in a ModuleList between an input and an output layer; one size is smaller than the world."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 17)
        self.blocks = nn.ModuleList(Residual(17, inner) for inner in (13, 2, 31))
        self.last = nn.Linear(17, 1)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, 10] -> scalar loss."""
        y = self.first(x)
        for block in self.blocks:
            y = block(y)
        return (self.last(y).float() - x.float().sum(1, keepdim=True)).square().mean()


def make(name: str) -> tuple[nn.Module, torch.Tensor]:
    """The module and the whole batch."""
    torch.manual_seed(0)
    if name == "mlp":
        return Mlp(), torch.randn(ROWS, 10)
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=61,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_cache=False,
    )
    return LlamaForCausalLM(config).float(), torch.randint(0, 61, (ROWS, 9))


def loss_of(model: nn.Module, name: str, rows: torch.Tensor) -> torch.Tensor:
    """The mean loss over the rows."""
    return model(rows) if name == "mlp" else model(rows, labels=rows).loss


def main(
    output: str, name: str, strategy: str, precision: str, accumulation: int, wrap: bool
) -> None:
    """Train and write."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model, rows = make(name)
    if wrap:
        model = FSDPModule(model, shard_strategy=strategy, mixed_precision=precision)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for part in rows.chunk(size)[rank].chunk(accumulation):
            loss = loss_of(model, name, part) / accumulation
            loss.backward()
            total += loss.item()
        optimizer.step()
        mean = torch.tensor(total / size, dtype=torch.float64)
        dist.all_reduce(mean)
        losses.append(mean.item())
    with torch.no_grad():
        evaluation = loss_of(model, name, rows).item()
    state = model.state_dict()
    model.load_state_dict({key: value.clone() for key, value in state.items()})
    again = model.state_dict()
    assert all(torch.equal(again[key], value) for key, value in state.items())
    numel = sum(parameter.numel() for parameter in model.parameters())
    if rank == 0:
        result = {"losses": losses, "state": state, "numel": numel, "evaluation": evaluation}
        torch.save(result, output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), sys.argv[6] == "1")
