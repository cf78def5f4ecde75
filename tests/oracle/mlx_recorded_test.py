# SPDX-License-Identifier: Apache-2.0
"""The reference executor, and the compiler's programs, have the results of the MLX runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from delegatec.backends import builtin_backends
from delegatec.backends.common.record import Record
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.operands import NODE_NAMES
from delegatec.backends.mlx.operators.docs import RECORD
from delegatec.delegation import format_blob_graph
from delegatec.diagnostics import DelegatecError
from delegatec.program.reader import read_program
from delegatec.program.reader.model import Method
from delegatec.verify.interpreter import Interpreter
from tests.oracle import mlx_nodes, mlx_programs
from tests.oracle.mlx_case import Results
from tests.oracle.mlx_recorded import CASES, recorded

_RECORDED: Final = recorded()
_NODES: Final = [case.name for case in mlx_nodes.CASES]
_PROGRAMS: Final = [case.name for case in mlx_programs.CASES]
# Sums in another order, and elementary functions of another library.
_TOLERANCES: Final = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
# Of eager mode, in float32: the runtime computes in another order, and in other steps.
_EAGER: Final = 1e-5
# Node -> why no record has it.
_NOT_RECORDED: Final[dict[str, str]] = {}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "p.pte"


@pytest.mark.parametrize("name", CASES)
def test_the_executor_has_the_results_of_the_runtime(name: str, path: Path) -> None:
    found = _RECORDED[name]
    _check(
        _run(found.program, path, [inputs for inputs, _ in found.calls]),
        _outputs(name),
        CASES[name].tolerance,
    )


@pytest.mark.parametrize("name", _NODES)
def test_cases_of_nodes_are_those_that_were_recorded(name: str, path: Path) -> None:
    assert _texts(CASES[name].program(), path) == _texts(_RECORDED[name].program, path)
    _check_inputs(name)


@pytest.mark.parametrize("name", _PROGRAMS)
def test_the_compiler_s_programs(name: str, path: Path) -> None:
    """They have the results that the runtime had, also if they are others by now."""
    case = CASES[name]
    _check_inputs(name)
    program = case.program()
    method = _method(program, path)
    assert (len(method.delegates), method.operators) == (1, ())
    _check(_run(program, path, case.calls), _outputs(name), case.tolerance)
    if _texts(program, path) != _texts(_RECORDED[name].program, path):
        pytest.skip("the compiler's program is another one since the results were recorded")


@pytest.mark.parametrize("name", _PROGRAMS)
def test_the_runtime_has_the_results_of_eager_mode(name: str) -> None:
    case = CASES[name]
    assert case.eager is not None
    _check(_outputs(name), case.eager(), case.tolerance or _EAGER)


def test_all_kinds_of_nodes_are_recorded(path: Path) -> None:
    emitted = {node for nodes in Record.read(RECORD).rows.values() for node in nodes}
    found = set[str]()
    for each in _RECORDED.values():
        if all(outputs is not None for _, outputs in each.calls):
            found |= _kinds(each.program, path)
    assert emitted - found == set(_NOT_RECORDED)


def _outputs(name: str) -> Results:
    return [outputs for _, outputs in _RECORDED[name].calls]


def _check_inputs(name: str) -> None:
    calls = [inputs for inputs, _ in _RECORDED[name].calls]
    for own, given in zip(CASES[name].calls, calls, strict=True):
        for tensor, other in zip(own, given, strict=True):
            torch.testing.assert_close(other, tensor, rtol=0, atol=0, equal_nan=True)


def _method(program: bytes, path: Path) -> Method:
    path.write_bytes(program)
    return read_program(path).method("forward")


def _graphs(program: bytes, path: Path) -> list[Any]:
    return [read_blob(each.blob) for each in _method(program, path).delegates]


def _texts(program: bytes, path: Path) -> list[str]:
    return [format_blob_graph(blob_graph(graph)) for graph in _graphs(program, path)]


def _kinds(program: bytes, path: Path) -> set[str]:
    return {
        NODE_NAMES[instruction.nodeType]
        for graph in _graphs(program, path)
        for chain in graph.chains
        for instruction in chain.instructions
    }


def _run(program: bytes, path: Path, calls: Sequence[Sequence[Tensor]]) -> Results:
    path.write_bytes(program)
    loaded = read_program(path)
    executor = Interpreter(loaded.method("forward"), builtin_backends(), named_data=loaded.named_bytes())
    found: Results = []
    for inputs in calls:
        try:
            found.append(executor.run([each.clone() for each in inputs]))
        except DelegatecError:
            found.append(None)
    return found


def _check(found: Results, wanted: Results, tolerance: float) -> None:
    assert [each is None for each in found] == [each is None for each in wanted]
    for outputs, others in zip(found, wanted, strict=True):
        for result, other in zip(outputs or (), others or (), strict=True):
            least = max(tolerance, _TOLERANCES.get(other.dtype, 0.0))
            largest = other[other.isfinite()].double().abs().max().item() if other.isfinite().any() else 0.0
            torch.testing.assert_close(
                result, other, rtol=least, atol=least * min(max(largest, least), 1.0), equal_nan=True
            )
