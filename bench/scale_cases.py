# SPDX-License-Identifier: Apache-2.0
"""Models of about n operators, each large in another respect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec import Method, Model


class _Computed(nn.Module):
    """A module that computes a function of itself and its inputs."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


X: Final = torch.linspace(-1.0, 1.0, 16).reshape(4, 4)


def _model(function: Callable[..., Any], *inputs: Tensor, **buffers: Tensor) -> Model:
    return Model(_Computed(function, **buffers), inputs or (X,))


def chain(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        for index in range(count):
            x = (x.sin(), x + 0.5, x * x, x.relu())[index % 4]
        return x

    return _model(function)


def tree(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        values = [x.sin() if index % 2 else x.cos() for index in range(count // 2)]
        while len(values) > 1:
            values = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        return values[0]

    return _model(function)


def equal_prefix_constants(count: int) -> Model:
    weights = {}
    for index in range(count):
        weights[f"w{index}"] = weight = torch.zeros(4, 256)
        weight[-1, -1] = index

    def function(self: Any, x: Tensor) -> Tensor:
        for name in weights:
            x = x + getattr(self, name)
        return x

    return _model(function, torch.ones(4, 256), **weights)


def weights(count: int) -> Model:
    return Model(nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))), (X,))


def slices(count: int) -> Model:
    def function(_: Any, x: Tensor) -> list[Tensor]:
        return [x[index : index + 2].sin() for index in range(count)]

    return _model(function, torch.rand(count + 2, 2))


def merged_slices(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        return torch.cat([x[index : index + 2] for index in range(count)])

    return _model(function, torch.rand(count + 2, 2))


def split(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        return torch.stack([part.relu() for part in x.unbind(0)])

    return _model(function, torch.rand(count, 4))


def concatenation(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        return torch.cat([x + index for index in range(count)])

    return _model(function)


def outputs(count: int) -> Model:
    def function(_: Any, x: Tensor) -> list[Tensor]:
        return [x * index for index in range(count)]

    return _model(function)


def equal_outputs(count: int) -> Model:
    def function(_: Any, x: Tensor) -> list[Tensor]:
        y = x.sin()
        return [y.clone() if index % 2 else y for index in range(count)]

    return _model(function)


def inputs(count: int) -> Model:
    def function(_: Any, *each: Tensor) -> Tensor:
        total = each[0]
        for x in each[1:]:
            total = total + x
        return total

    return _model(function, *(X + index for index in range(count)))


def users(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        y, total = x.sin(), x
        for index in range(count // 2):
            total = total + y * (index + 2.5)
        return total

    return _model(function)


def folded_mask(count: int) -> Model:
    def function(self: Any, x: Tensor) -> Tensor:
        mask = self.mask
        for index in range(count // 2):
            mask = torch.where(mask > index, mask, mask.transpose(0, 1))
        return functional.scaled_dot_product_attention(x[None], x[None], x[None], mask[None])

    return _model(function, X, mask=torch.rand(4, 4))


def mask(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        hidden = x > 0
        for index in range(count // 2):
            hidden = torch.where(x > index / count, hidden, hidden.transpose(0, 1))
        return functional.scaled_dot_product_attention(x[None], x[None], x[None], hidden[None])

    return _model(function)


def movements(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        for index in range(count // 3):
            x = (x.transpose(0, 1).reshape(2, 8).reshape(4, 4) + index).unsqueeze(0).squeeze(0)
        return x

    return _model(function)


def branches(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        for index in range(count // 20):
            x = torch.cond(x.sum() > index, torch.sin, torch.cos, (x,))
        return x

    return _model(function)


def mutations(count: int) -> Model:
    buffers = {f"b{index}": torch.zeros(4, 4) for index in range(count // 2)}

    def function(self: Any, x: Tensor) -> Tensor:
        for name in buffers:
            getattr(self, name).add_(x)
        return x + 1

    return _model(function, **buffers)


def writes(count: int) -> Model:
    def function(self: Any, x: Tensor) -> Tensor:
        for index in range(count // 2):
            self.cache[index % 64, :, :] = x + index
        return self.cache.sum(0)

    return _model(function, cache=torch.zeros(64, 4, 4))


def methods(count: int) -> Model:
    module = nn.Sequential(*(nn.Linear(4, 4) for _ in range(10)))
    return Model(module, methods={f"m{index}": Method("forward", (X,)) for index in range(count // 20)})


def indices(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        total = x[0]
        for index in range(count // 2):
            total = total + x[torch.tensor([index % 4]), :][0]
        return total

    return _model(function)


def unsupported(count: int) -> Model:
    """Every third operator is rejected by MPS."""

    def function(_: Any, x: Tensor) -> Tensor:
        for index in range(count // 3):
            x = (x + index).relu().atan2(x)
        return x

    return _model(function)


def dynamic(count: int) -> Model:
    def function(_: Any, x: Tensor) -> Tensor:
        y = x
        for index in range(count // 2):
            y = torch.cat([y[:1], x * index])[: x.shape[0]]
        return y

    return Model(_Computed(function), (X,), dynamic_shapes=(({0: torch.export.Dim("n", min=2, max=64)},),))


CASES: Final[dict[str, Callable[[int], Model]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(chain, tree, users, weights, equal_prefix_constants, slices, merged_slices, split, concatenation),
        *(outputs, equal_outputs, inputs, folded_mask, mask, movements, branches, mutations, writes, methods),
        *(indices, unsupported, dynamic),
    )
}
