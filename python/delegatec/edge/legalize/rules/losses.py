# SPDX-License-Identifier: Apache-2.0
"""Losses with margins: eager mode adds positive terms, and NaN is none; torch's decompositions keep NaN."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import FunctionTable

aten = torch.ops.aten

_MEAN, _SUM = 1, 2


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    return losses.mean() if reduction == _MEAN else losses.sum() if reduction == _SUM else losses


def _multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    count = x.shape[-1] if x.dim() else 1
    rows, index = x.reshape(-1, count), target.reshape(-1, 1)
    excess = margin - rows.gather(1, index) + rows
    counts = (excess > 0) & (torch.arange(count) != index)
    terms = excess if p == 1 else excess * excess
    if weight is not None:
        terms = terms * weight[index]
    losses = torch.where(counts, terms, 0.0).sum(1) / count
    return _reduced(losses, reduction)


def _multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    count = x.shape[-1] if x.dim() else 1
    rows, labels = x.reshape(-1, count), target.reshape(-1, count)
    is_label = labels.lt(0).cumsum(1).eq(0)  # those before the first negative one
    positions = torch.arange(count)
    is_target = (torch.where(is_label, labels, -1)[:, :, None] == positions).any(1)
    wanted = rows.gather(1, torch.where(is_label, labels, 0))
    excess = 1 - wanted[:, :, None] + rows[:, None, :]
    counts = (excess > 0) & is_label[:, :, None] & ~is_target[:, None, :]
    losses = torch.where(counts, excess, 0.0).sum((1, 2)) / count
    return _reduced(losses, reduction), is_target.to(x.dtype).reshape(x.shape)


FUNCTIONS: Final[FunctionTable] = {
    aten.multi_margin_loss.default: _multi_margin_loss,
    aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss,
}
