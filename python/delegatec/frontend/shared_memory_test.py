# SPDX-License-Identifier: Apache-2.0
"""A mutable buffer that is also a part of another tensor is rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model

X = torch.ones(4)


class Counts(nn.Module):
    """Writes to one buffer and reads another, in one method or two."""

    def __init__(self, other: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        count = torch.ones(4)
        self.register_buffer("count", count)
        self.register_buffer("other", other(count))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.write(x), self.read(x)

    def write(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.get_buffer("count").add_(1)

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return self.get_buffer("other") * x.sum()

    def look(self, x: torch.Tensor) -> torch.Tensor:
        return self.get_buffer("count") * x


def _model(module: nn.Module, *methods: str) -> Model:
    return Model(module, methods={name: Method(name, (X,)) for name in methods})


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "part": lambda t: t[1:3],
    "shape": lambda t: t.view(2, 2),
    "strides": lambda t: t[::3],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("methods", [("forward",), ("write", "read")])
def test_a_view_of_a_mutable_buffer_is_rejected(
    view: Callable[[torch.Tensor], torch.Tensor], methods: tuple[str, ...]
) -> None:
    with pytest.raises(DelegatecError) as caught:
        export(_model(Counts(view), *methods))
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC123" and '"count"' in problem.message and '"other"' in problem.message


def test_separate_or_constant_memory_is_supported() -> None:
    export(_model(Counts(lambda t: t[1:3].clone()), "write", "read"))
    export(_model(Counts(lambda t: t[1:1]), "write", "read"))
    export(_model(Counts(lambda t: t[1:3]), "look", "read"))
    export(_model(Counts(lambda t: t[1:3]), "write", "look"))


def test_one_tensor_with_two_names_is_supported() -> None:
    program = export(_model(Counts(lambda t: t), "forward"))["forward"]
    eager = Counts(lambda t: t)
    module = program.module()
    for _ in range(2):
        for actual, expected in zip(module(X), eager(X), strict=True):
            torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("names", [("count", "expanded"), ("expanded", "count")])
def test_an_expanded_view_of_what_is_written(names: tuple[str, str]) -> None:
    """Whichever comes first, the original value is restored, and the reason is the view."""

    class Expanded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            count = torch.zeros(1)
            tensors = {"count": count, "expanded": count.expand(2)}
            for name in names:
                setattr(self, name, tensors[name])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.expanded

    module = Expanded()
    with pytest.raises(DelegatecError, match="DC123"):
        export(Model(module, (torch.ones(2),)))
    assert torch.equal(module.count, torch.zeros(1))
