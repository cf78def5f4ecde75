# SPDX-License-Identifier: Apache-2.0
"""`require_full_delegation` leaves nothing that needs a library of kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim, export

from delegatec.backends.common.testing import Call
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import Program, lower
from delegatec.program.emitted import KernelCall


class Returned(torch.nn.Module):
    """Returns an input, a weight, and a result twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return x, self.weight, y, y


class State(torch.nn.Module):
    """Writes to a buffer."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class Written(torch.nn.Module):
    """Writes to an input."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2)
        return x + y


class Cast(torch.nn.Module):
    """Returns integers, which TOSA's are not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1).to(torch.int64)


class Sized(torch.nn.Module):
    """Returns a size, too."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x * 2, x.shape[0] * 3


_X = torch.ones(2, 3)
_IMAGE = torch.ones(1, 3, 8, 8).to(memory_format=torch.channels_last)


def _lowered(
    module: torch.nn.Module, *inputs: torch.Tensor, backend: str, full: bool, dynamic: Any = None
) -> Program:
    exported = export(module.eval(), inputs, dynamic_shapes=dynamic)
    return lower({"forward": exported}, backend, require_full_delegation=full)


def _kernels(lowered: Program) -> list[str]:
    (method,) = lowered.emitted.methods
    return [
        ".".join(filter(None, method.operators[instruction.operator]))
        for instruction in method.instructions
        if isinstance(instruction, KernelCall)
    ]


@pytest.mark.parametrize(
    ("module", "inputs", "backend", "kernels", "line"),
    [
        (Returned(), (_X[0],), "mps", ["aten::clone.out"] * 3, ""),
        (State(), (_X,), "mps", ["aten::copy_"], "self.total.add_(x)"),
        (Written(), (_X, _X.clone()), "vulkan", ["aten::copy_"], "y.mul_(2)"),
        (Cast(), (_X,), "tosa", ["aten::_to_copy.out"], "to(torch.int64)"),
        (torch.nn.Conv2d(3, 4, 3), (_IMAGE,), "mps", ["dim_order_ops::_to_dim_order_copy.out"] * 2, ""),
    ],
)
def test_copies_are_errors(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], backend: str, kernels: list[str], line: str
) -> None:
    assert _kernels(_lowered(module, *inputs, backend=backend, full=False)) == kernels
    with pytest.raises(DelegatecError) as caught:
        _lowered(module, *inputs, backend=backend, full=True)
    problems = caught.value.diagnostics
    assert [(each.code, each.message.split()[0]) for each in problems] == [("DC417", k) for k in kernels]
    assert all(each.help and "in method forward: it " in each.message for each in problems)
    if line:
        assert all(each.location is not None and line in each.location.text for each in problems)


def test_state_inside_a_delegate_is_no_copy() -> None:
    assert _kernels(_lowered(State(), _X, backend="vulkan", full=True)) == []


def test_primitives_are_no_copies() -> None:
    dynamic = {"x": {0: Dim("batch", min=2, max=8)}}
    kernels = _kernels(_lowered(Sized(), _X, backend="vulkan", full=True, dynamic=dynamic))
    assert "aten::sym_size.int" in kernels


def _messages(function: Any, *inputs: torch.Tensor) -> list[tuple[str, str]]:
    with pytest.raises(DelegatecError) as caught:
        _lowered(Call(function), *inputs, backend="xnnpack", full=True)
    assert {each.code for each in caught.value.diagnostics} == {"DC405"}
    return [
        (each.message.removeprefix("XnnpackBackend rejected "), each.help)
        for each in caught.value.diagnostics
    ]


_ANOTHER = "choose another operator, or let this one run on the CPU"


def test_one_message_names_the_operator_of_the_model() -> None:
    """A line had a message for each node of the decomposition, most with a help that does not help."""
    ((message, help),) = _messages(lambda x: torch.sort(x.exp())[0] + 1, _X)
    assert message.startswith("aten.sort.default: dtype int64.")
    assert message.endswith(" (in its decomposition: aten.topk.default)")
    assert help == _ANOTHER
    assert [message for message, _ in _messages(lambda x: torch.nan_to_num(x.exp()), _X)] == [
        "aten.nan_to_num.default: it tests for NaN: NaN is not equal to itself"
        " (in its decomposition: aten.isnan.default)"
    ]


def test_operators_of_a_line_that_are_rejected_for_one_reason_share_a_message() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.exp(), i * 3 + i, x.nonzero()

    found = _messages(function, _X, torch.arange(3))
    assert [(message.partition(":")[0], help) for message, help in found] == [
        ("aten.mul.Tensor, aten.add.Tensor", "convert to float32"),
        ("aten.nonzero.default", _ANOTHER),
    ]


_INTEGERS: list[tuple[str, dict[str, str]]] = [
    ("ethos_u", {"stage": "tosa"}),
    ("tosa", {"specification": "TOSA-1.0+INT"}),
]


@pytest.mark.parametrize(("backend", "options"), _INTEGERS)
def test_a_float_model_for_integers_is_a_mistake(backend: str, options: dict[str, str]) -> None:
    """Not only with `require_full_delegation`: such a program would run on the CPU alone."""
    x = torch.ones(1, 3)
    with pytest.raises(DelegatecError) as raised:
        lower({"forward": export(torch.nn.Linear(3, 4), (x,))}, backend, options)
    (problem,) = raised.value.diagnostics
    assert problem.code == "DC424" and f"{backend} computes in integers" in problem.message
    assert "quantized_program" in problem.help


def test_integers_and_fallbacks_are_none() -> None:
    backend, options = _INTEGERS[0]
    number = export(Call(lambda x: x + 1), (torch.ones(3, dtype=torch.int32),))
    assert lower({"forward": number}, backend, options).reports["forward"].delegates
    programs = {name: export(torch.nn.Linear(3, 4), (torch.ones(1, 3),)) for name in ("forward", "other")}
    both = lower(programs, [backend, "xnnpack"], {"ethos_u.stage": "tosa"})
    assert all(report.delegates for report in both.reports.values())
