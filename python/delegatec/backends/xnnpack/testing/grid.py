# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of operator rows: lower a function to a blob, and inspect its operations."""

from __future__ import annotations

import torch
from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.testing import Call, Compiled, Function, check_results, eager
from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.operands import OPERATION_NAMES
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.operators.case import Case


def run_case(case: Case, **options: str) -> Compiled:
    """Checks that a function becomes one delegate with the case's operations, and the results of eager mode.

    The reference executor runs it; `tests/oracle/xnnpack_cases_test.py` does so in the stock runtime.

    Args:
        case: the function.
        **options: of the backend; without any, the operations are compared.

    Returns:
        The compiled program, for further checks.
    """
    compiled = compile_module(case.module(), case.args, case.dynamic_shapes(), **options)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    found = operations(compiled.blobs()[0])
    is_named = case.operations and not options
    assert not is_named or found == case.operations.split(), f"the blob has {' '.join(found)}"
    tolerance = case.half if options else None
    relative, absolute = (case.rtol, 2e-6) if tolerance is None else (tolerance, tolerance)
    for args in (case.args, *case.more):
        given = args if tolerance is None else rounded(args)
        wanted = list(eager(case.module(), given))
        check_results(compiled(*given), wanted, [each.dtype for each in wanted], relative, absolute)
    return compiled


def rounded(args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Rounds float32 inputs to values that float16 represents; returns others unchanged."""
    return tuple(each.half().float() if each.dtype == torch.float32 else each for each in args)


def operations(blob: bytes) -> list[str]:
    """Returns the names of a blob's operations, in order."""
    return [OPERATION_NAMES[node.operationType] for node in graph_of(blob).nodes or []]


def graph_of(blob: bytes) -> schema.GraphT:
    """Returns the graph of a blob."""
    return read_blob(memoryview(blob)).graph


def rejected(
    function: Function | torch.nn.Module, args: tuple[torch.Tensor, ...], **options: str
) -> list[tuple[str, str, str]]:
    """Returns operator, rule and message of each node that is not delegated."""
    module = function if isinstance(function, torch.nn.Module) else Call(function)
    return compile_module(module, args, **options).left
