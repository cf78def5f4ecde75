# SPDX-License-Identifier: Apache-2.0
"""Experts of a mixture, as transformers calls them. A call reads the weights of the chosen experts only.

In separate layers, each expert computes the rows of the tokens that chose it; layers of no rows read nothing.
With joint weights, each row is multiplied by the matrices of its expert, in one product for all experts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

from delegatec.language.layer_kinds import Experts
from delegatec.language.layers import join_weights, product, products

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
    if hasattr(module, "delegatec_is_joint"):
        x = _of_rows(module, hidden_states.repeat_interleave(chosen, 0), top_k_index.reshape(-1))
        return (x.reshape(tokens, chosen, -1) * top_k_weights[..., None]).sum(1)
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
    return _layers(module, lambda name, x: _layer(module, name, expert, x), x)


def _of_rows(module: Any, x: Tensor, chosen: Tensor) -> Tensor:
    """Applies one of the experts, of joint weights, to each row."""

    def layer(name: str, x: Tensor) -> Tensor:
        bias = getattr(module, f"{name}_bias") if module.has_bias else None
        return products(module, name, x, chosen, bias)

    return _layers(module, layer, x)


def _layers(module: Any, layer: Callable[[str, Tensor], Tensor], x: Tensor) -> Tensor:
    first, second = names_of(module)
    x = layer(first, x)
    x = module._apply_gate(x) if module.has_gate else module.act_fn(x)
    x = layer(second, x)
    return module.post_expert_norm(x) if module.has_post_expert_norm else x


def join_experts(module: Any) -> None:
    """Joins the weights of the experts of a mixture, in place, so that products choose matrices of them."""
    for name in names_of(module):
        join_weights(module, name, module.num_experts)
    module.delegatec_is_joint = True


def _layer(module: Any, name: str, expert: int, x: Tensor) -> Tensor:
    bias = getattr(module, f"{name}_bias")[expert] if module.has_bias else None
    return product(module, f"{name}_{expert}", x, bias)


def names_of(module: Any) -> tuple[str, str]:
    """Returns the names of the weights of experts: of their first layers, and of their last."""
    return "gate_up_proj" if module.has_gate else "up_proj", "down_proj"


def register_experts() -> None:
    """Makes `experts` known to transformers."""
    importlib.import_module("transformers.integrations.moe").ExpertsInterface.register(NAME, experts)
