# SPDX-License-Identifier: Apache-2.0
"""Modules that cannot be exported are rejected by name."""

from __future__ import annotations

import pytest
import torch

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend.export import export
from delegatec.frontend.model import Model

X = torch.ones(3, 3)


class Holder(torch.nn.Module):
    """Returns something besides a tensor, or holds a weight of a kind."""

    def __init__(self, extra: object = None, weight: torch.Tensor | None = None) -> None:
        super().__init__()
        self.extra = extra
        self.register_buffer("weight", torch.ones(3) if weight is None else weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, object]:
        return x + 1, self.extra


def problems(module: torch.nn.Module) -> list[Diagnostic]:
    try:
        export(Model(module, (X,)))
    except DelegatecError as error:
        return list(error.diagnostics)
    return []


def test_torchscript() -> None:
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 3)))
    traced = torch.jit.trace(torch.nn.Linear(3, 3), X)
    (problem,) = problems(scripted)
    assert problem.message.startswith("the module is a TorchScript module")
    inside = problems(torch.nn.Sequential(torch.nn.ReLU(), scripted, traced))
    assert [problem.message.split()[0] for problem in inside] == ['"1"', '"2"']


def test_weights_without_values() -> None:
    assert [problem.message.split()[0] for problem in problems(torch.nn.LazyLinear(3))] == [
        '"weight"',
        '"bias"',
    ]
    (problem,) = problems(Holder(weight=torch.eye(3).to_sparse()))
    assert "layout sparse_coo" in problem.message and "dense tensors" in problem.help


@pytest.mark.parametrize("extra", [None, 3, 2.5, True])
def test_outputs_that_a_program_stores(extra: object) -> None:
    assert problems(Holder(extra)) == []


def test_output_that_is_a_string() -> None:
    (problem,) = problems(Holder("name"))
    assert (problem.code, problem.message) == ("DC119", "output 1 is of type str: 'name'")
