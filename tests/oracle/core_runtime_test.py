# SPDX-License-Identifier: Apache-2.0
"""The compiler core against eager mode: small models in the stock runtime, one aspect each."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.interpret import interpret
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.core_case import Case, Function
from tests.oracle.core_complex import COMPLEX
from tests.oracle.core_dynamic import DYNAMIC
from tests.oracle.core_elementwise import ELEMENTWISE
from tests.oracle.core_sizes import SIZES
from tests.oracle.core_state import STATEFUL
from tests.oracle.core_static import STATIC
from tests.oracle.oracle import OracleProgram

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

CASES = {
    f"{kind}-{name}": case
    for kind, cases in (
        ("complex", COMPLEX),
        ("elementwise", ELEMENTWISE),
        ("static", STATIC),
        ("stateful", STATEFUL),
        ("dynamic", DYNAMIC),
        ("sizes", SIZES),
    )
    for name, case in cases.items()
}


def _module(case: Case) -> torch.nn.Module:
    torch.manual_seed(5)
    return case.module().eval()


def _export(case: Case) -> ExportedProgram:
    return export(_module(case), case.calls[0], dict(case.kwargs), dynamic_shapes=case.dynamic_shapes)


def _compile(case: Case) -> OracleProgram:
    file = io.BytesIO()
    write_program(lower({"forward": _export(case)}).emitted, file)
    return OracleProgram(file.getvalue())


def _assert_same(actual: list[Any], expected: list[Any]) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, torch.Tensor):
            low = e.dtype in (torch.float16, torch.bfloat16)
            tolerance = {"atol": 2e-2, "rtol": 2e-2} if low else {"atol": 2e-6, "rtol": 1e-5}
            torch.testing.assert_close(a, e, equal_nan=True, **tolerance)
        else:
            assert type(a) is type(e) and a == e


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_runtime_agrees_with_eager_mode(name: str) -> None:
    case = CASES[name]
    runtime, eager = _compile(case), _module(case)
    for call in case.calls:
        inputs = pytree.tree_leaves((call, case.kwargs))
        with torch.no_grad():
            expected = pytree.tree_leaves(eager(*call, **case.kwargs), is_leaf=lambda x: x is None)
        _assert_same(runtime.run(inputs), expected)


@pytest.mark.parametrize("name", STATEFUL)
def test_state_after_each_call_agrees_with_eager_mode(name: str) -> None:
    """The edge program returns new state; written back manually, it equals that of eager mode."""
    case = STATEFUL[name]
    program, eager = to_edge(_export(case)), _module(case)
    for call in case.calls:
        eager(*call)
        _write_back(program, interpret(program, call))
        for target, buffer in eager.named_buffers():
            torch.testing.assert_close(_value(program, target), buffer)


def _write_back(program: EdgeProgram, results: list[Any]) -> None:
    for spec, result in zip(program.output_specs, results, strict=True):
        if spec.target is not None:
            name = next(s.arg.name for s in program.input_specs if s.target == spec.target)
            program.constants[name] = result


def _value(program: EdgeProgram, target: str) -> torch.Tensor:
    return program.constants[next(s.arg.name for s in program.input_specs if s.target == target)]


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: torch.linalg.svd(x), "aten._linalg_svd.default"),
        (lambda x: torch.special.bessel_j0(x), "aten.special_bessel_j0.default"),
        (lambda x: torch.frexp(x), "aten.frexp.Tensor"),
    ],
)
def test_an_operator_without_a_kernel_is_a_build_error(function: Any, operator: str) -> None:
    with pytest.raises(DelegatecError) as caught:
        _compile(Case(lambda: Function(function), [(torch.ones(4, 4),)]))
    assert [d.code for d in caught.value.diagnostics] == ["DC201"]
    assert operator in caught.value.diagnostics[0].message
