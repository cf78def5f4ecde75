# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of operator rows: lower a function to a blob, run it, and compare with eager mode."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final
from unittest.mock import patch

import torch
from torch._ops import OpOverload

from delegatec.backends.common.reference.unspecified import depends_on
from delegatec.backends.common.testing import (
    Build,
    Call,
    Compiled,
    Function,
    X,
    check_results,
    eager,
    program_of,
)
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import DEFAULT
from delegatec.backends.mps.testing import checked_executor, compile_module, compile_program, operations
from delegatec.delegation.delegates.call_delegate import call_delegate

aten = torch.ops.aten

PRECISIONS: Final = ("fp32", "fp16")
# Rows with MPSGraph's result for NaN, or its index of equal elements, have a note.
_AT_AWKWARD_VALUES: Final = frozenset({"nan", "ties"})
UNMASKED: Final = replace(DEFAULT, reads="zero", writes="skip")
"""Out-of-range indices do not raise: a graph may mask the elements that they read or write."""
_SPECIAL: Final = torch.tensor([0.5, math.nan, -1.5, math.inf, 1.0, -math.inf, 0.0, -0.0])
_ROUNDS: Final = 3
_TOLERANCE: Final = {"fp32": (2e-5, 2e-6), "fp16": (4e-3, 1e-3)}


def run_case(
    function: Function,
    args: tuple[torch.Tensor, ...],
    expected: str = "",
    precision: str = "fp32",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    preserve: Collection[OpOverload] = (),
    reference: Function | None = None,
    unspecified: Collection[str] = (),
    special: int = 0,
) -> Compiled:
    """Checks that a function becomes one delegate with the results of eager mode.

    With fp16, eager mode computes in float16 as well, so that shared rounding is not a difference.

    Args:
        function: of tensors; returns a tensor or several.
        args: example inputs, also for the run.
        expected: names of the blob's operations, in order; not checked if empty. With fp16 they include the
            casts of inputs and outputs.
        precision: "fp32" or "fp16".
        rtol: relative tolerance; by default that of the precision.
        atol: absolute tolerance; by default that of the precision.
        preserve: composites that are not decomposed before the partitioner.
        reference: computes the expected results instead of the function.
        unspecified: behaviors of MPSGraph that the result may depend on, named as in `Unspecified`.
        special: how many inputs get NaN, infinities and zeros of both signs in further runs, which must match
            eager mode as well, for each result of MPSGraph for NaN.

    Returns:
        The compiled program, for further checks.
    """
    module = Call(function)
    compiled = compile_module(module, args, precision, preserve)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    found = operations(compiled.blobs()[0])
    assert found == expected.split() or not expected, f"the blob has {' '.join(found)}"
    wanted = list(eager(Call(reference or function), _halved(args) if precision == "fp16" else args))
    relative, absolute = _TOLERANCE[precision]
    tolerance = (relative if rtol is None else rtol, absolute if atol is None else atol)
    dtypes = [value.dtype for value in eager(module, args)]
    check_results(compiled(*args), wanted, dtypes, *tolerance)
    check_specified(compiled, args, unspecified)
    blob = read_blob(memoryview(compiled.blobs()[0]))
    for seed in range(_ROUNDS if special else 0):
        given = (
            *(_drawn(tensor, seed, argument) for argument, tensor in enumerate(args[:special])),
            *args[special:],
        )
        wanted = list(eager(Call(reference or function), _halved(given) if precision == "fp16" else given))
        for nan in ("other", "nan"):
            executor = checked_executor(blob, UNMASKED.with_choice("nan", nan))
            with patch.object(compiled.delegates[0], "_executor", executor):
                check_results(compiled(*given), wanted, dtypes, *tolerance)
    return compiled


def _drawn(tensor: torch.Tensor, seed: int, argument: int) -> torch.Tensor:
    """Replaces the values of a float32 tensor by special ones."""
    if tensor.dtype != torch.float32:
        return tensor
    chance = torch.Generator().manual_seed(seed * 8 + argument)
    return _SPECIAL[torch.randint(0, len(_SPECIAL), tensor.shape, generator=chance)]


def _halved(args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(t.half() if t.dtype == torch.float32 else t for t in args)


def rejected(
    function: Function, args: tuple[torch.Tensor, ...], precision: str = "fp32"
) -> list[tuple[str, str, str]]:
    """Returns operator, rule and message of each node that is not delegated."""
    return compile_module(Call(function), args, precision).left


def run_node(
    build: Build, expected: str = "", precision: str = "fp32", tolerance: float | None = None
) -> None:
    """Checks nodes that passes over the edge program would fold or rewrite before delegation.

    Their operand is a float32 of shape [2, 3, 4]; the mean of their result is compared.

    Args:
        build: appends them.
        expected: operations that the blob must contain, in any order.
        precision: "fp32" or "fp16".
        tolerance: relative and absolute.
    """
    program, wanted = program_of(build)
    compiled = compile_program(program, precision)
    assert (len(compiled.delegates), compiled.report.rejections) == (1, [])
    for operation in expected.split():
        assert operation in operations(compiled.blobs()[0]), f"the blob does not contain {operation}"
    allowed = tolerance or {"fp32": 1e-6, "fp16": 2e-2}[precision]
    torch.testing.assert_close(compiled(X)[0], wanted, rtol=allowed, atol=allowed, equal_nan=True)


def _awkward(tensor: torch.Tensor) -> torch.Tensor:
    """Replaces the values of a float32 tensor: halves, zeros of both signs, equal elements."""
    if tensor.dtype != torch.float32:
        return tensor
    values = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 1.0, 0.0, -0.0])
    return values[torch.randint(0, 8, tensor.shape, generator=torch.Generator().manual_seed(tensor.numel()))]


def check_specified(
    compiled: Compiled, args: tuple[torch.Tensor, ...], allowed: Collection[str] = ()
) -> None:
    """Checks that the results of a single delegate do not depend on unspecified behavior of MPSGraph.

    Args:
        compiled: from `run_case`.
        args: inputs of the program.
        allowed: behaviors that it may depend on.
    """
    (call,) = (node for node in compiled.program.graph.nodes if node.target is call_delegate)
    users = [node for node in compiled.program.placeholders() if node.name not in compiled.program.constants]
    given = dict(zip(users, args, strict=True))
    blob = read_blob(memoryview(compiled.blobs()[0]))
    inputs = [given[node] for node in call.args[1:]]

    def dependencies(inputs: Sequence[torch.Tensor]) -> list[str]:
        return depends_on(lambda choices: MpsReferenceExecutor(blob, choices)(inputs), UNMASKED)

    assert dependencies(inputs) == list(allowed)
    if any(tensor.dtype == torch.float32 for tensor in inputs):
        found = dependencies([_awkward(tensor) for tensor in inputs])
        assert set(found) <= {*allowed, *_AT_AWKWARD_VALUES}
    run = MpsReferenceExecutor(blob)
    run(inputs)
    assert run.mismatches() == []
