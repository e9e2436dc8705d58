"""``mindspeed bench train``: whole training steps, ours against peers, in interleaved process pairs."""

from mindspeed_llm.bench_train.command import main

__all__ = ["main"]
