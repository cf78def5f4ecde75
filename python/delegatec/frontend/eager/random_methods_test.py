# SPDX-License-Identifier: Apache-2.0
"""Tests that methods with random numbers are compared with their module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.edge.draws import Drawn, drawn_values, is_random
from delegatec.frontend.export import export_with_samples
from delegatec.frontend.model import Model

X = torch.tensor([1.0, 2.0, 3.0, 4.0])


class Calls(torch.nn.Module):
    """Calls a function with the module and the inputs; has a buffer and a plain tensor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.plain = torch.zeros(4)
        self.noise: torch.Tensor | None = None
        self.register_buffer("total", torch.zeros(4))

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def code(function: Callable[..., Any]) -> str:
    """Returns the code of the problem that `export` finds, "" for none."""
    try:
        samples = export_with_samples(Model(Calls(function).eval(), (X,))).samples
    except DelegatecError as error:
        return error.diagnostics[0].code
    assert not samples.calls
    return ""


def dice(module: Any, x: torch.Tensor) -> Any:
    return x + torch.rand(4) * torch.randn_like(x) + torch.bernoulli(torch.full((4,), 0.5))


def gathered(module: Any, x: torch.Tensor) -> Any:
    module.total += torch.rand(4)
    return module.total * x


def drawn_in_place(module: Any, x: torch.Tensor) -> Any:
    return x + torch.empty(4).normal_() + torch.empty(4).uniform_(0, 2)


def chosen(module: Any, x: torch.Tensor) -> Any:
    return torch.multinomial(x.softmax(0), 2), torch.randint(9, (4,)), torch.randperm(4)


def in_a_branch(module: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y + torch.rand(4), lambda y: y * 2, (x,))


@pytest.mark.parametrize(
    "function", [dice, gathered, drawn_in_place, chosen, in_a_branch], ids=lambda f: f.__name__
)
def test_draws_from_the_same_seed(function: Callable[..., Any]) -> None:
    assert code(function) == ""


def lost_beside_noise(module: Any, x: torch.Tensor) -> Any:
    module.plain = module.plain + x
    return module.plain + torch.rand(4), x * 2


def lost_beside_an_unused_draw(module: Any, x: torch.Tensor) -> Any:
    torch.rand(3)
    module.plain = module.plain + x
    return x + torch.rand(4), module.plain * 2


def lost_in_a_buffer(module: Any, x: torch.Tensor) -> Any:
    module.total = module.total + torch.rand(4)
    module.plain = module.plain + 1
    return module.total, x * module.plain


def kept_noise(module: Any, x: torch.Tensor) -> Any:
    """Draws in the first call only, where a program draws in each."""
    if module.noise is None:
        module.noise = torch.randn(4)
    return x + module.noise


@pytest.mark.parametrize(
    "function",
    [lost_beside_noise, lost_beside_an_unused_draw, lost_in_a_buffer, kept_noise],
    ids=lambda f: f.__name__,
)
def test_state_that_is_lost(function: Callable[..., Any]) -> None:
    assert code(function) == "DC124"


def test_other_constants() -> None:
    def differs(module: Any, x: torch.Tensor) -> Any:
        return torch.rand(4), x * 2 if torch.compiler.is_exporting() else x * 3

    assert code(differs) == "DC128"


def test_other_forms() -> None:
    """Next to a draw that torch.export drops, values of others cannot be compared, but their form can."""

    def differs(module: Any, x: torch.Tensor) -> Any:
        torch.rand(3)
        drawn = x + torch.rand(4)
        return drawn.view(2, 2) if torch.compiler.is_exporting() else drawn

    assert code(differs) == "DC128"


def test_time_beside_noise() -> None:
    import time

    assert code(lambda module, x: (torch.rand(4), x * time.time())) == "DC129"


def test_values_that_follow_from_draws() -> None:
    def several(module: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        y.mul_(torch.rand(4))
        module.total.add_(torch.rand(4).view(2, 2).flatten())
        return x * 2, x.shape[0], y.view(2, 2), module.total + 1, torch.zeros(4).copy_(x)

    def reads(module: Any, x: torch.Tensor) -> Any:
        return x, module.total * 2

    program = torch.export.export(Calls(several), (X.clone(), X.clone()))
    reader = torch.export.export(Calls(reads), (X,))
    assert drawn_values({"a": program, "b": reader}) == {
        "a": Drawn(frozenset({2, 3}), frozenset({1})),
        "b": Drawn(frozenset({1})),
    }
    assert is_random(program)
    assert not is_random(reader)
    decomposed = program.run_decompositions()
    assert drawn_values({"a": decomposed})["a"].outputs >= {2, 3}
