# SPDX-License-Identifier: Apache-2.0
"""Models with buffers that they write to."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle.core_case import noise, of_calls


class Average(nn.Module):
    """An average over calls, and their count."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, -2.0]))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.mean.mul_(0.5).add_(x)
        self.count += 1
        return self.mean.sum(), self.count.clone()


class Cache(nn.Module):
    """A row is written at the caller's position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3))

    def forward(self, row: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        self.rows[position] = row
        return self.rows.sum(1), self.rows


class Queue(nn.Module):
    """A buffer whose views are read after it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("items", torch.arange(4.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        old = self.items[:2].clone()
        self.items.copy_(torch.cat([self.items[1:], x]))
        return self.items[1:3] * 2, old


class Swap(nn.Module):
    """Two buffers that swap their values."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.tensor([1.0, 2.0]))
        self.register_buffer("b", torch.tensor([3.0, 4.0]))

    def forward(self, x: Tensor) -> Tensor:
        kept = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(kept)
        return x + self.a


class MutableIndex(nn.Module):
    """An index and a mask that look constant in the first call, but are not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(4))
        self.register_buffer("mask", torch.zeros(4, 4))
        self.register_buffer("keep", torch.ones(4, dtype=torch.bool))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        picked, kept = x[self.order], self.keep & (x[:, 0] > -10)
        attended = F.scaled_dot_product_attention(x, x, x, attn_mask=self.mask)
        self.order.copy_(self.order.flip(0))
        self.mask.copy_(torch.full((4, 4), -float("inf")))
        self.keep.copy_(~self.keep)
        return picked, attended, kept


STATEFUL = {
    "average": of_calls(Average, *((torch.tensor([1.0, float(i)]),) for i in range(4))),
    "cache": of_calls(Cache, *((noise(1, 3, seed=i), torch.tensor([i])) for i in (2, 0, 3))),
    "queue": of_calls(Queue, *((torch.tensor([float(i)]),) for i in (9, 8, 7))),
    "swap": of_calls(Swap, *[(torch.zeros(2),)] * 3),
    "mutable_index": of_calls(MutableIndex, *[(noise(4, 4),)] * 3),
}
