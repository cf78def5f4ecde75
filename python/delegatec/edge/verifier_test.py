# SPDX-License-Identifier: Apache-2.0
"""The verifier finds errors in a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export.graph_signature import InputKind

from delegatec.edge import EdgeProgram
from delegatec.edge.testing import Function, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten


def _program() -> EdgeProgram:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.bias)

    return edge(Function(model, bias=torch.ones(3)), torch.ones(2, 3))


def _call(program: EdgeProgram) -> Any:
    return program.graph.find_nodes(op="call_function", target=aten.relu.default)[0]


def _mutate(program: EdgeProgram) -> None:
    _call(program).target = aten.relu_.default


def _unknown_function(program: EdgeProgram) -> None:
    _call(program).target = torch.nn.functional.relu


def _no_value(program: EdgeProgram) -> None:
    del _call(program).meta["val"]


def _strided(program: EdgeProgram) -> None:
    node = _call(program)
    node.meta["val"] = node.meta["val"].T


def _spec_too_many(program: EdgeProgram) -> None:
    program.input_specs.append(program.input_specs[-1])


def _specs_in_another_order(program: EdgeProgram) -> None:
    program.input_specs.reverse()


def _constant_without_value(program: EdgeProgram) -> None:
    program.constants.clear()


def _input_with_value(program: EdgeProgram) -> None:
    program.constants[program.placeholders()[-1].name] = torch.ones(2, 3)


def _kind(program: EdgeProgram) -> None:
    program.input_specs[0].kind = InputKind.USER_INPUT


def _output_without_spec(program: EdgeProgram) -> None:
    program.output_specs.clear()


def _use_before_definition(program: EdgeProgram) -> None:
    program.graph.find_nodes(op="call_function", target=aten.add.Tensor)[0].args = (_call(program), 1)


def test_a_good_program_passes() -> None:
    verify(_program())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_mutate, "writes to its argument"),
        (_unknown_function, "is not an operator"),
        (_no_value, r"has no meta\['val'\]"),
        (_strided, "has strides"),
        (_spec_too_many, "placeholders and input specs do not match"),
        (_specs_in_another_order, "has the spec of"),
        (_constant_without_value, "without a value"),
        (_input_with_value, "with a value"),
        (_kind, "with a value"),
        (_output_without_spec, ""),
        (_use_before_definition, "used before it has been defined"),
    ],
)
def test_damage_is_found(damage: Callable[[EdgeProgram], None], message: str) -> None:
    program = _program()
    damage(program)
    with pytest.raises((AssertionError, RuntimeError), match=message):
        verify(program)
