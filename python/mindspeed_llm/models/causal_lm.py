"""The Python face of the C++ ``CausalLM``: an ``nn.Module`` holding the very same parameter tensors."""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mindspeed_core import _C
from mindspeed_llm.models import hugging_face
from mindspeed_llm.models.generation import generate_tokens

IGNORED_LABEL = -100


class CausalLMOutput:
    """What a forward pass gives: ``loss`` (None without labels) and ``logits`` [B, S, vocab].

    Logits are computed when first asked for, so training never holds them.
    """

    def __init__(self, loss: torch.Tensor | None, logits: Callable[[], torch.Tensor]):
        self.loss = loss
        self._compute_logits = logits

    @cached_property
    def logits(self) -> torch.Tensor:
        """Logits [B, S, vocab] in the compute dtype."""
        return self._compute_logits()


class _Node(nn.Module):
    """A level of the parameter tree; the arithmetic is in C++."""


class CausalLM(nn.Module):
    """A decoder-only language model whose parameters carry Hugging Face's names.

    ``model.parameters()`` are the C++ engine's own tensors (this rank's shards), so any torch
    optimizer updates the engine's weights.
    """

    def __init__(self, engine: Any, hugging_face_config: Mapping[str, Any] | None = None):
        super().__init__()
        self.engine = engine
        self.hugging_face_config = hugging_face_config
        for name, tensor in engine.named_parameters():
            self._attach(name, tensor)

    def _attach(self, name: str, tensor: torch.Tensor) -> None:
        tensor._is_param = True  # type: ignore[attr-defined]  # torch's own mark of a Parameter
        *path, leaf = name.split(".")
        node: nn.Module = self
        for part in path:
            child = node._modules.get(part)
            if child is None:
                child = _Node()
                node.add_module(part, child)
            node = child
        node.register_parameter(leaf, tensor)  # type: ignore[arg-type]

    @property
    def spec(self) -> dict[str, Any]:
        """The ModelSpec as nested dictionaries."""
        return json.loads(self.engine.spec_json)

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | None = None,
    ) -> CausalLMOutput:
        """Run the model as transformers does.

        Args:
            input_ids: int64 [B, S].
            labels: int64 [B, S]; the *same* tokens (shifted here); -100 is not counted. The loss is the
                mean over the counted tokens.
            attention_mask: ones, or zeros only on the right (padding): causal attention never looks
                there, so nothing else changes.
            position_ids: [B, S] or [S]; default: 0, 1, 2, ... in each sequence.
            cu_seqlens: int32 [documents + 1], bounds of packed documents over the B*S tokens.

        Raises:
            ValueError: an attention mask that is not right padding, or wrong shapes.
        """
        _check_right_padding(attention_mask, input_ids)
        positions = None
        if position_ids is not None:
            positions = position_ids.expand_as(input_ids).reshape(-1).to(torch.int32)
        hidden = self.engine.hidden(input_ids, positions, cu_seqlens)
        batch, sequence = input_ids.shape
        loss = None
        if labels is not None:
            loss_sum, num_valid = self.engine.loss_of_hidden(hidden, shift_labels(labels))
            loss = loss_sum / num_valid
        return CausalLMOutput(
            loss, lambda: self.engine.logits_of_hidden(hidden).view(batch, sequence, -1)
        )

    @torch.no_grad()
    def generate(
        self,
        input_ids: torch.Tensor,
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        do_sample: bool = False,
        eos_token_id: int | None = None,
    ) -> torch.Tensor:
        """Continue each row of ``input_ids`` [B, S]; returns [B, S + new].

        Greedy unless ``do_sample``; sampling draws from torch's default generator. Rows that produced
        ``eos_token_id`` are filled with it; generation stops when all have.
        """
        return generate_tokens(
            self.engine,
            input_ids,
            max_new_tokens,
            temperature,
            top_k,
            top_p,
            do_sample,
            eos_token_id,
        )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a Hugging Face folder that transformers loads back bit for bit (float32).

        Raises:
            CheckpointError: the folder cannot be written.
        """
        config = hugging_face.to_config(self.spec, self.hugging_face_config)
        hugging_face.save_folder(Path(folder), config, dict(self.engine.named_parameters()))

    def num_parameters(self) -> int:
        """Number of parameters on this rank."""
        return sum(parameter.numel() for parameter in self.parameters())

    def __deepcopy__(self, memo: dict[int, Any]) -> "CausalLM":
        copy = CausalLM(
            _C.CausalLM(self.engine.spec_json, str(next(self.parameters()).device)),
            self.hugging_face_config,
        )
        copy.load_state_dict(self.state_dict())
        return copy


def shift_labels(labels: torch.Tensor) -> torch.Tensor:
    """Labels for the engine: position t holds the token at t + 1, the last one -100."""
    shifted = torch.full_like(labels, IGNORED_LABEL)
    shifted[:, :-1] = labels[:, 1:]
    return shifted


def _check_right_padding(mask: torch.Tensor | None, input_ids: torch.Tensor) -> None:
    if mask is None or mask.all():
        return
    if mask.shape != input_ids.shape:
        raise ValueError(
            f"attention_mask must have the shape of input_ids {list(input_ids.shape)},"
            f" got {list(mask.shape)}; packed documents are given by cu_seqlens"
        )
    kept = mask.to(torch.bool)
    if (kept[:, 1:] & ~kept[:, :-1]).any():
        raise ValueError(
            "attention_mask must be ones followed by zeros in each row (right padding); pad on the"
            " right, or give packed documents by cu_seqlens"
        )
