# SPDX-License-Identifier: Apache-2.0
"""Experts of a mixture, as transformers calls them: each computes the rows of the tokens that chose it.

A call reads the weights of the chosen experts only: layers of no rows do not.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from delegatec.language.layer_kinds import Experts
from delegatec.language.layers import product

NAME: Final = "delegatec"


class ExpertRows(nn.Module):
    """Memory for the results of the experts of one layer, which all layers share.

    Args:
        tokens: the most tokens of a call.
        chosen: experts that a token chooses.
        features: elements of a token.
    """

    rows: Tensor

    def __init__(self, tokens: int, chosen: int, features: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.register_buffer("rows", torch.zeros(tokens * chosen, features), persistent=False)

    @classmethod
    def shared(cls, mixtures: Sequence[Experts], tokens: int) -> ExpertRows:
        """Returns the memory of all mixtures of a network, whose tokens have one number of features."""
        return cls(tokens, max(each.chosen for each in mixtures), mixtures[0].features)


def experts(module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Computes the weighted sum of the results of the experts that each token chose.

    Args:
        module: the experts, with `delegatec_rows`.
        hidden_states: float32 [n, features].
        top_k_index: int64 [n, chosen], the experts of each token.
        top_k_weights: float32 [n, chosen].

    Returns:
        float32 [n, features].
    """
    tokens, chosen = top_k_index.shape
    memory: ExpertRows = module.delegatec_rows
    rows, choices = memory.rows, top_k_index.reshape(-1)
    # the bound shows that positions do not count from the end, which in-place writes need
    order = choices.argsort().clamp(min=0)
    counts = (choices[:, None] == torch.arange(module.num_experts)).sum(0)
    starts = counts.cumsum(0) - counts
    everywhere = torch.arange(tokens * chosen).clamp(min=0)
    rows.index_copy_(0, everywhere, hidden_states.repeat_interleave(chosen, 0))
    for expert, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        for is_true in (start >= 0, count >= 0, count <= memory.tokens):
            torch._check(is_true)  # type: ignore[no-untyped-call]
        own = order[torch.arange(start, start + count)]
        # Each expert reads the rows after the one before it has written: they are computed one after the
        # other, in the same memory.
        rows.index_copy_(0, own, _expert(module, expert, rows[own]))
    results = rows[: tokens * chosen].reshape(tokens, chosen, hidden_states.shape[1])
    return (results * top_k_weights[..., None]).sum(1)


def _expert(module: Any, expert: int, x: Tensor) -> Tensor:
    """Applies one expert to its rows."""
    first, second = names_of(module)
    x = _layer(module, first, expert, x)
    x = module._apply_gate(x) if module.has_gate else module.act_fn(x)
    x = _layer(module, second, expert, x)
    return module.post_expert_norm(x) if module.has_post_expert_norm else x


def _layer(module: Any, name: str, expert: int, x: Tensor) -> Tensor:
    bias = getattr(module, f"{name}_bias")[expert] if module.has_bias else None
    return product(module, f"{name}_{expert}", x, bias)


def names_of(module: Any) -> tuple[str, str]:
    """Returns the names of the weights of experts: of their first layers, and of their last."""
    return "gate_up_proj" if module.has_gate else "up_proj", "down_proj"


def register_experts() -> None:
    """Makes `experts` known to transformers."""
    importlib.import_module("transformers.integrations.moe").ExpertsInterface.register(NAME, experts)
