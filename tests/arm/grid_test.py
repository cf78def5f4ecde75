# SPDX-License-Identifier: Apache-2.0
"""The kernels of our executor have the results of the reference model, for each operator and type."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.conformance.problem import problem
from delegatec.backends.arm.conformance.types import TYPES
from delegatec.backends.arm.dtypes import NAMES, STORED
from delegatec.backends.arm.reference import TosaReferenceExecutor
from tests.arm.grid import SPECIFICATION, Case, Graph, build, cases
from tests.arm.grid_cases import ELEMENTWISE, MOVES, REDUCTIONS
from tests.arm.grid_layers import CONVERSIONS, LAYERS
from tests.arm.tosa_tools import run

CASES: Final = [*cases((*ELEMENTWISE, *MOVES, *REDUCTIONS, *LAYERS, *CONVERSIONS))]
OPERATORS: Final = sorted({case.operator for case in CASES})
_NOT_RUN: Final = frozenset({"FFT2D", "RFFT2D"})
"""Operators that the compiler does not emit."""


def _difference(found: torch.Tensor, wanted: torch.Tensor, digits: int, sums: bool) -> str:
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{list(found.shape)} for {wanted.dtype}{list(wanted.shape)}"
    if not wanted.dtype.is_floating_point:
        wrong = found != wanted
    else:
        step = torch.finfo(wanted.dtype).eps
        one, other = found.double(), wanted.double()
        size = other.abs()
        if sums:
            size = size.max()
        limit = digits * step * size
        # infinities have no difference
        wrong = ~((one == other) | (one.isnan() & other.isnan()) | ((one - other).abs() <= limit))
    if not bool(wrong.any()):
        return ""
    return f"{int(wrong.sum())} of {wrong.numel()} elements: {found[wrong][:3]} for {wanted[wrong][:3]}"


def _results(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the result in our executor, and in the reference model."""
    (ours,) = TosaReferenceExecutor(read_blob(memoryview(graph.blob)))(graph.inputs)
    (theirs,) = run(graph.blob, graph.inputs)
    dtype = STORED.get(graph.builder.outputs[0].dtype, torch.int64)
    theirs = theirs if theirs.dtype == dtype else theirs.view(dtype)
    return ours, theirs.reshape(graph.builder.outputs[0].shape)


@pytest.mark.parametrize("operator", OPERATORS)
def test_results_are_those_of_the_reference_model(operator: str) -> None:
    wrong = []
    for case in CASES:
        if case.operator == operator:
            graph = build(case)
            assert problem(graph.builder.operations[0], SPECIFICATION) is None, case
            difference = _difference(*_results(graph), case.digits, case.sums)
            if difference:
                wrong.append(f"{case}: {difference}")
    assert not wrong, "\n".join(wrong)


def test_every_combination_of_types_is_in_the_grid() -> None:
    def types(case: Case) -> tuple[int, ...]:
        operation = build(case).builder.operations[0]
        return (*(operation.inputs[i].dtype for i in TYPES[case.operator][0]), operation.outputs[0].dtype)

    run_types = {(case.operator, types(case)) for case in CASES}
    for operator, (_, supports) in TYPES.items():
        for each in supports:
            # the compiler emits INT4 constants as INT8
            is_draft = "BLOCK_SCALED" in operator  # of TOSA 1.1
            if operator not in _NOT_RUN and not is_draft and DType.INT4 not in each.types:
                shown = [NAMES[kind] for kind in each.types]
                assert (operator, each.types) in run_types, f"{operator} of {shown}"
