# SPDX-License-Identifier: Apache-2.0
"""Small models that together use every kind of value and instruction of a program."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export


class Convolutional(nn.Module):
    """Convolution, batch norm, pooling, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.norm(self.convolution(image)))
        y = nn.functional.max_pool2d(y, 2)
        return self.linear(y.mean((2, 3))), y


class Encoder(nn.Module):
    """One layer of masked attention over token ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        batch, length = ids.shape
        x = self.embedding(ids)
        q, k, v = (
            part.view(batch, length, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).split(16, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :] > 0)
        y = y.transpose(1, 2).reshape(batch, length, 16)
        return nn.functional.gelu(self.out(y)) + x


class Accumulator(nn.Module):
    """A buffer that lives from call to call, with an initial state that is not zero."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, -2.0, 3.0, 0.5]))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


class Branches(nn.Module):
    """A condition that is known only at run time."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 3 - 2, (x,))


class ManyOutputs(nn.Module):
    """Kernels with several outputs, lists of tensors, integers, bools, doubles."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        first, second = torch.split(x, [2, 3], dim=1)
        values, indices = torch.topk(x, 2)
        largest, where = x.max(dim=1)
        return (
            first,
            second,
            values,
            indices,
            largest,
            where,
            torch.cat([second, first], 1),
            x.to(torch.float64).sum(0),
            (x > 0).to(torch.int32),
            x > 0,
            torch.arange(5),
            torch.full((2,), 3),
            x[:, ::2],
            x.t().clone(),
        )


def _tokens() -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, 50, (2, 6), generator=torch.Generator().manual_seed(7))
    return ids, torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])


def _image() -> Tensor:
    return torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(7))


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return make().eval()


def _dynamic() -> ExportedProgram:
    length = Dim("length", min=2, max=12)
    return export(_seeded(Encoder), _tokens(), dynamic_shapes=({1: length}, {1: length}))


MODELS: dict[str, Callable[[], ExportedProgram]] = {
    "convolutional": lambda: export(_seeded(Convolutional), (_image(),)),
    "encoder": lambda: export(_seeded(Encoder), _tokens()),
    "dynamic": _dynamic,
    "state": lambda: export(_seeded(Accumulator), (torch.ones(4),)),
    "branches": lambda: export(_seeded(Branches), (torch.tensor([1.0, 2.0, -1.0, 0.5]),)),
    "many_outputs": lambda: export(_seeded(ManyOutputs), (_image()[0, 0, :3, :5].clone(),)),
}
