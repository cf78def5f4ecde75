# SPDX-License-Identifier: Apache-2.0
"""A case lowered by our compiler: what is delegated, and whether its results are those of the model."""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.backends.arm.ethos_u.accelerator import Accelerator
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.backends.arm.ethos_u.vela import compile_graph
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.backends.common.testing import Compiled
from delegatec.delegation import LoweredModule, to_backend
from delegatec.delegation.partitioning.composites import decompose_for, decompose_rejected
from delegatec.diagnostics import DelegatecError
from delegatec.edge import KERNEL_COMPOSITES, to_edge
from delegatec.edge.interpret import interpret
from delegatec.frontend.block_scaled import adopt_block_scaled
from tests.arm.tosa_tools import InvalidGraphError
from tests.peer.arm.cases import PreparedCase, Tolerance

Run = Callable[[bytes, Sequence[torch.Tensor], str], Sequence[torch.Tensor]]
"""Runs a TOSA graph of a specification: raises `InvalidGraphError` if it is not one with defined results."""

RIGHT: Final = "right"
PARTLY: Final = "partly"
REFUSED: Final = "refused"
BEYOND: Final = "beyond"
DELEGATED: Final = "delegated"
WRONG: Final = "wrong"
INVALID: Final = "invalid"
ERROR: Final = "error"
NONE: Final = "none"

STATUSES: Final = {
    RIGHT: "delegated as a whole; the results are within the tolerance of the test, or Vela compiles it",
    PARTLY: "the same, with operators that are not delegated, for the reason given",
    REFUSED: "not delegated, for the reason given",
    BEYOND: "delegated, although the test expects that it is not: the graph is valid, its results are those "
    "of eager mode, and Vela compiles it if it is for Ethos-U55",
    DELEGATED: "delegated, although the test expects that it is not, without this evidence",
    WRONG: "the results are beyond the tolerance of the test",
    INVALID: "the reference model, the validator or Vela rejects the graph",
    ERROR: "the compiler fails",
    NONE: "torch, or the peer's quantizer, rejects the case",
}


def wanted(kind: str) -> str:
    """Returns the status that a case of a kind should have."""
    return REFUSED if kind == "refused" else RIGHT


def as_it_should_be(kind: str) -> tuple[str, ...]:
    """Returns the statuses that cases of a kind should have."""
    return (REFUSED, BEYOND) if kind == "refused" else (RIGHT,)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        status: of `STATUSES`.
        reason: the difference, the error, or why an operator is not delegated.
        left: operators that are not delegated.
        delegates: how many.
        operators: delegated operators -> how many.
    """

    status: str
    reason: str = ""
    left: list[str] = field(default_factory=list)
    delegates: int = 0
    operators: dict[str, int] = field(default_factory=dict)


def lower_case(case: PreparedCase) -> Compiled:
    """Runs `lower` without the check of kernels, which the operators of quantization do not have."""
    registry = builtin_backends()
    backend = registry.resolve("ethos_u" if case.kind in ("U55", "U65", "U85") else "tosa")
    preserved = backend.preserved_operators()
    options = case.options or {"specification": case.specification}
    partitioner = backend.partitioner(backend.compile_specs(options))
    adopt_block_scaled(case.program)
    program = to_edge(case.program, preserve=preserved | KERNEL_COMPOSITES)
    decompose_for(program, partitioner, preserved)
    compiled = Compiled(*to_backend(program, partitioner, registry=registry))
    decompose_rejected(compiled.program, preserved)
    return compiled


def outcome(case: PreparedCase, run: Run | None) -> Outcome:
    """Lowers a case, runs it if it has TOSA graphs, and compares.

    Args:
        case: the case; its program is edited.
        run: runs TOSA graphs; None skips the comparison.
    """
    expected = _eager(case) if case.kind == "refused" else []
    try:
        compiled = lower_case(case)
    except DelegatecError as error:
        first = error.diagnostics[0]
        # An option: the specification has an extension that we do not support.
        return Outcome(REFUSED if first.code == "DC402" else ERROR, f"{first.code}: {first.message}")
    reasons = _reasons(compiled)
    summaries = compiled.report.delegates
    operators = sum((Counter(each.operators) for each in summaries), Counter[str]())

    def result(status: str, reason: str = "") -> Outcome:
        return Outcome(status, reason, sorted(reasons), len(summaries), dict(operators))

    why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    if case.kind == "refused" and summaries:
        kept = {_plain(_peer_name(name)) for name in case.kept}
        computed = sorted(name for name in operators if not name.startswith("quantized_decomposed."))
        delegated = [name for name in computed if _plain(name) in kept]
        if len(summaries) > case.delegates or delegated:
            what = ", ".join(delegated or computed) or "quantization alone"
            return result(*_beyond(what, replace(case, wanted=expected), compiled, run))
    if case.kind == "refused":
        return result(REFUSED, why)
    if not summaries and reasons:
        return result(REFUSED, why)
    if run is not None and not case.options:
        try:
            problem = case.compare(_results(compiled, run, case.specification, case.inputs))
        except InvalidGraphError as error:
            return result(INVALID, str(error))
        if problem:
            return result(WRONG, problem)
    return result(PARTLY, why) if reasons else result(RIGHT)


def _eager(case: PreparedCase) -> list[Any]:
    """Returns the results of the exported program; none if it cannot be run."""
    with contextlib.suppress(Exception), torch.no_grad():
        return list(pytree.tree_leaves(case.program.module()(*copy.deepcopy(case.inputs))))
    return []


def _beyond(what: str, case: PreparedCase, compiled: Compiled, run: Run | None) -> tuple[str, str]:
    """Returns the status of a case that must not be delegated, and is: BEYOND if that is right.

    Args:
        what: the delegated operators.
        case: the results of eager mode are `wanted`.
        compiled: the case.
        run: runs TOSA graphs.
    """
    specification = TosaSpecification.parse(case.specification)
    if run is None or not case.wanted:
        return DELEGATED, what
    try:
        results = _results(compiled, run, case.specification, case.inputs)
        if specification.mark == "u55":
            for delegate in compiled.delegates:
                compile_graph([delegate.blob_bytes()], EthosUSettings(accelerator=Accelerator.U55_128))
    except InvalidGraphError as error:
        return DELEGATED, f"{what}: {error}"
    except DelegatecError as error:
        return DELEGATED, f"{what}: {error.diagnostics[0].message}"
    pairs = list(zip(results, case.wanted, strict=True))
    if all(torch.equal(result, wanted) for result, wanted in pairs):
        return BEYOND, f"{what}: equal results"
    compared = replace(case, tolerance=Tolerance(), scales=[None] * len(case.wanted))
    problem = compared.compare(results)
    return (DELEGATED, f"{what}: {problem}") if problem else (BEYOND, f"{what}: results within the tolerance")


def _reasons(compiled: Compiled) -> dict[str, str]:
    """Returns operators that are not delegated -> why, without the boundaries of a quantized program."""
    found = {r.operator: r.message for r in compiled.report.rejections if r.rule != "trivial"}
    return {name: reason for name, reason in found.items() if not name.startswith("quantized_decomposed.")}


def _peer_name(name: str) -> str:
    return name.removeprefix("executorch_exir_dialects_edge__ops_").removeprefix("torch.ops.")


def _plain(name: str) -> str:
    return name.replace(".", "_").replace("_copy", "")


def _results(compiled: Compiled, run: Run, specification: str, inputs: tuple[Any, ...]) -> list[Any]:
    """Returns the outputs of the model: an oracle runs the delegates from their blobs alone."""

    def run_delegate(lowered: LoweredModule, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = run(lowered.blob_bytes(), values, specification)
        wanted = [node.meta["val"].dtype for node in lowered.original.outputs]
        return tuple(_typed(value, dtype) for value, dtype in zip(results, wanted, strict=True))

    program = compiled.program
    with patch.object(LoweredModule, "run", run_delegate):
        found = interpret(program, pytree.tree_leaves(copy.deepcopy(inputs)))
    return found[len(program.mutated_inputs()) :]


def _typed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a result of an oracle, which represents dtypes that numpy lacks by integers."""
    if value.dtype == dtype:
        return value
    if dtype.is_floating_point and not value.dtype.is_floating_point and value.itemsize == dtype.itemsize:
        return value.view(dtype)
    raise InvalidGraphError(f"a result of dtype {value.dtype} instead of {dtype}")
