"""A rank of test_normalisation: one forward and backward over this rank's rows of the fixed batch.

Arguments: output file, accumulation (micro batches a rank), fsdp (0 or 1), recompute (none, selective, full).
"""

import json
import sys

import torch
import torch.distributed as dist

from mindspeed_core import _C

SPEC = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_layers": 2,
    "attention": {"num_heads": 4, "num_key_value_heads": 2, "head_size": 8},
    "mlp": {"intermediate_size": 56},
}
ROWS, LENGTH = 12, 16


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """12 rows with 0 to 16 valid labels; the last third holds none at all."""
    generator = torch.Generator().manual_seed(5)
    input_ids = torch.randint(0, 97, (ROWS, LENGTH), generator=generator)
    labels = torch.randint(0, 97, (ROWS, LENGTH), generator=generator)
    for row in range(ROWS):
        labels[row, : row * 2] = -100
    labels[ROWS * 2 // 3 :] = -100
    return input_ids, labels


def main(output: str, accumulation: int, fsdp: bool, recompute: str) -> None:
    """Write loss, tokens, norm and (full) gradients from rank 0."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = _C.CausalLM(json.dumps(SPEC), seed=7)
    settings = {"clip_norm": 0.0, "bucket_bytes": 4096, "fsdp": fsdp}
    settings["recompute"] = [recompute] * 2
    engine = _C.StepEngine(model, json.dumps(settings), dist.group.WORLD)
    input_ids, labels = (tensor.chunk(size)[rank] for tensor in make_batch())
    chunks = zip(input_ids.chunk(accumulation), labels.chunk(accumulation), strict=True)
    stats = engine.forward_backward([(ids, label, None, None) for ids, label in chunks])
    gradients = {}
    shapes = {
        name: owner["global_shape"]
        for owner in model.parameter_owners()
        for name in [owner["name"]]
    }
    for name, parameter in engine.parameters():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        if fsdp and size > 1:
            parts: list[torch.Tensor | None] = [None] * size
            dist.all_gather_object(parts, gradient)
            gradient = torch.cat(parts)
        assert list(gradient.shape) == list(shapes[name]), name
        gradients[name] = gradient.clone()
    if rank == 0:
        result = {"loss": stats.loss, "valid": stats.valid_tokens, "norm": stats.grad_norm}
        torch.save({**result, "gradients": gradients}, output)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1", sys.argv[4])
