# SPDX-License-Identifier: Apache-2.0
"""Tensors in the caller's memory that delegates exchange."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.delegation import BackendRegistry, to_backend
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.edge.testing import edge
from delegatec.program import ProgramOptions, emit, write_program
from delegatec.program.kernels.dim_order import REORDER
from delegatec.program.reader import parse_program
from delegatec.program.reader.model import DelegateCall, KernelCall, Method
from delegatec.verify import Interpreter

aten = torch.ops.aten
IMAGE = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
COPY = ".".join(REORDER)


class OrderedBackend(EagerBackend):
    """Exchanges channels-last values in the order of memory."""

    def orders_boundary(self, value: torch.Tensor) -> bool:
        return True


def _instructions(method: Method) -> list[str]:
    return [
        method.operators[each.operator] if isinstance(each, KernelCall) else "delegate"
        for each in method.chains[0].instructions
    ]


CASES: dict[str, tuple[Callable[[torch.Tensor], Any], list[str]]] = {
    "complete": (lambda x: x.exp(), ["delegate"]),
    "also read by a kernel": (lambda x: (x.exp(), x.sin().sum(1)), [COPY, "delegate", "aten::sin.out"]),
    "twice": (lambda x: x.exp().sin().cos(), ["delegate", "aten::sin.out", "delegate"]),
    "of a kernel": (lambda x: x.exp().sin(), ["delegate", "aten::sin.out", COPY]),
}


@pytest.mark.parametrize("plan_inputs", [True, False])
@pytest.mark.parametrize("plan_outputs", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_delegates_exchange_the_tensors_of_the_caller(
    name: str, plan_inputs: bool, plan_outputs: bool
) -> None:
    function, instructions = CASES[name]
    registry = BackendRegistry([OrderedBackend()])
    program, _ = to_backend(
        edge(function, IMAGE), SupportsAllBut(aten.sin.default, aten.sum.dim_IntList), registry=registry
    )
    file = io.BytesIO()
    options = ProgramOptions(plan_inputs=plan_inputs, plan_outputs=plan_outputs)
    write_program(emit({"forward": program}, options=options), file)
    method = parse_program(file.getvalue()).method("forward")
    assert _instructions(method)[: len(instructions)] == instructions
    if name == "complete" and not plan_inputs and not plan_outputs:
        (call,) = method.chains[0].instructions
        assert isinstance(call, DelegateCall) and call.args == (*method.inputs, *method.outputs)
    results = Interpreter(method, registry).run([IMAGE])
    for result, wanted in zip(results, pytree.tree_leaves(function(IMAGE)), strict=True):
        torch.testing.assert_close(result, wanted)
        assert result.stride() == wanted.stride()
