# SPDX-License-Identifier: Apache-2.0
"""Control flow against eager mode: in the edge program, in the stock runtime, and in the interpreter."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.export import export
from torch.utils import _pytree as pytree

from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter
from tests.oracle.control_flow_cases import COND, MAP, MODULES, SCAN, WHILE
from tests.oracle.core_case import Case
from tests.oracle.oracle import OracleProgram

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

CASES = {
    f"{kind}-{name}": case
    for kind, cases in (("cond", COND), ("while", WHILE), ("map", MAP), ("scan", SCAN), ("module", MODULES))
    for name, case in cases.items()
}


def _module(case: Case) -> torch.nn.Module:
    torch.manual_seed(5)
    return case.module().eval()


def _same(actual: list[Any], expected: Any) -> None:
    leaves = pytree.tree_leaves(expected)
    assert len(actual) == len(leaves)
    for a, e in zip(actual, leaves, strict=True):
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(e), atol=2e-6, rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_runtime_agrees_with_eager_mode(name: str) -> None:
    # torch compiles loops in eager mode: cached code of one case must not affect another
    torch._dynamo.reset()
    case = CASES[name]
    exported = export(_module(case), case.calls[0], dynamic_shapes=case.dynamic_shapes)
    emitted = lower({"forward": exported}).emitted
    file = io.BytesIO()
    write_program(emitted, file)
    runtime, eager = OracleProgram(file.getvalue()), _module(case)
    interpreter = Interpreter(parse_program(file.getvalue()).methods[0])
    for call in case.calls:
        with torch.no_grad():
            expected = eager(*call)
        inputs = pytree.tree_leaves(call)
        _same(runtime.run(inputs), expected)
        _same(interpreter.run(inputs), expected)
    plan = emitted.methods[0].memory_plan
    assert plan.arena_size == plan.lower_bound
