# SPDX-License-Identifier: Apache-2.0
"""Measures one architecture end to end."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from delegatec import export, lower
from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.lowering import Program
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter
from tests.architectures.case import Case
from tests.oracle.oracle import OracleProgram

_Run = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Error:
    """The largest difference of a program's outputs from eager mode.

    Attributes:
        absolute: largest difference of two elements.
        relative: the same as a part of the largest magnitude of its output.
    """

    absolute: float
    relative: float


@dataclass(frozen=True)
class Measurement:
    """The result of one architecture.

    Attributes:
        exported_nodes: calls in the graph that torch.export gave.
        instructions: instructions of the portable program.
        kernels: different kernels that it calls.
        delegates: delegates of the MPS program.
        left: operators that are not delegated.
        portable: error of the portable program in the stock runtime.
        mps: error of the MPS program, delegates by their reference executor.
        planned: bytes of planned memory of the portable program.
        bound: the least that any plan could have.
    """

    exported_nodes: int
    instructions: int
    kernels: int
    delegates: int
    left: int
    portable: Error
    mps: Error
    planned: int
    bound: int


def measure(case: Case) -> Measurement:
    """Exports a case, lowers it for both backends, runs both, and compares them with eager mode.

    Raises:
        DelegatecError: the compiler rejects it.
        RuntimeError: the stock runtime rejects the program.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.pt2"
        declared = case.declared()
        exported = export(declared)
        nodes = sum(node.op == "call_function" for node in exported["forward"].graph.nodes)
        archive.save(exported, str(path))
        portable = _lowered(path, "portable")
        mps = _lowered(path, "mps")
        (method,) = portable.emitted.methods
        (report,) = mps.reports.values()
        return Measurement(
            exported_nodes=nodes,
            instructions=len(method.instructions),
            kernels=len(method.operators),
            delegates=len(report.delegates),
            left=report.nodes_left,
            portable=compare(case, _in_runtime(_written(portable, folder))),
            mps=compare(case, _in_reference(_written(mps, folder))),
            planned=method.memory_plan.arena_size,
            bound=method.memory_plan.lower_bound,
        )


@dataclass(frozen=True)
class Whole:
    """The program of an architecture for one backend.

    Attributes:
        delegates: how many.
        left: operators that are not delegated.
        error: of its outputs.
    """

    delegates: int
    left: int
    error: Error


@contextmanager
def _exported(case: Case) -> Iterator[Path]:
    """Exports a case, without warnings, to a file in a new directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.pt2"
        archive.save(export(case.declared()), str(path))
        yield path


def measure_xnnpack(case: Case) -> Whole:
    """Exports a case, lowers it for XNNPACK, runs it in the stock runtime, and compares it with eager mode.

    Raises:
        DelegatecError: the compiler rejects it.
        RuntimeError: the stock runtime rejects the program.
    """
    return _whole(case, "xnnpack", _in_runtime)


def measure_mlx(case: Case) -> Whole:
    """Does the same for MLX, with delegates in their reference executor.

    Raises:
        DelegatecError: the compiler rejects it.
    """
    return _whole(case, "mlx", _in_reference)


def _whole(case: Case, backend: str, loaded: Callable[[Path], _Run]) -> Whole:
    with _exported(case) as path:
        lowered = _lowered(path, backend)
        (report,) = lowered.reports.values()
        error = compare(case, loaded(_written(lowered, str(path.parent))))
        return Whole(len(report.delegates), report.nodes_left, error)


@dataclass(frozen=True)
class Half:
    """The XNNPACK program of an architecture in fp16, in the stock runtime.

    Attributes:
        relative: largest difference of its outputs from eager mode in float32, as in `Error`.
        eager: the same of eager mode in float16; None where torch cannot run it.
        saturated: whether constants beyond float16 are clamped: it is refused otherwise.
    """

    relative: float
    eager: float | None
    saturated: bool


def measure_fp16(case: Case) -> Half:
    """Does the same as `measure_xnnpack` in fp16, and runs eager mode in float16.

    Raises:
        DelegatecError: the compiler rejects it.
        RuntimeError: the stock runtime rejects the program.
    """
    with _exported(case) as path:
        options = {"precision": "fp16"}
        try:
            lowered = _lowered(path, "xnnpack", options)
        except DelegatecError as error:
            if {diagnostic.code for diagnostic in error.diagnostics} != {"DC406"}:
                raise
            options["fp16_overflow"] = "saturate"
            lowered = _lowered(path, "xnnpack", options)
        found = compare(case, _in_runtime(_written(lowered, str(path.parent))))
        return Half(found.relative, _eager_fp16(case), len(options) > 1)


def _eager_fp16(case: Case) -> float | None:
    module = case.module().half()

    def run(inputs: Sequence[Any]) -> list[Any]:
        halves = dict(zip(case.inputs, map(_half, inputs), strict=True))
        with torch.no_grad():
            results = pytree.tree_leaves(module(**halves))
        return [r.float() if isinstance(r, torch.Tensor) and r.dtype == torch.float16 else r for r in results]

    try:
        found = compare(case, run).relative
    except (RuntimeError, ValueError):  # Operands of two dtypes, or no kernel for float16.
        return None
    return found if math.isfinite(found) else None


def _half(value: Any) -> Any:
    return value.half() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def compare(case: Case, run: _Run) -> Error:
    """Runs a program and eager mode as often as the case specifies; both keep their state."""
    module = case.module()
    worst = Error(0.0, 0.0)
    for number in range(case.runs):
        inputs = case.examples(number)
        with torch.no_grad():
            expected = pytree.tree_leaves(module(**inputs))
        actual = run(list(case.examples(number).values()))
        assert len(actual) == len(expected), f"{len(actual)} outputs, {len(expected)} in eager mode"
        for a, e in zip(actual, expected, strict=True):
            error = difference(a, e)
            worst = Error(max(worst.absolute, error.absolute), max(worst.relative, error.relative))
    return worst


def difference(actual: Any, expected: Any) -> Error:
    """Returns the difference of an output from eager mode; infinite if it is of another kind."""
    if not isinstance(expected, torch.Tensor):
        return Error(0.0, 0.0) if actual == expected else Error(math.inf, math.inf)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Error(math.inf, math.inf)
    if expected.numel() == 0:
        return Error(0.0, 0.0)
    a, e = actual.to(torch.float64), expected.to(torch.float64)
    same = (a == e) | (a.isnan() & e.isnan())
    absolute = float(torch.where(same, 0.0, (a - e).abs()).nan_to_num(math.inf, math.inf).max())
    finite = e[e.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return Error(absolute, absolute / scale if scale else absolute)


def _lowered(path: Path, backend: str, options: Mapping[str, str] | None = None) -> Program:
    return lower(archive.load(str(path)).methods, backend, options)


def _written(lowered: Program, folder: str) -> Path:
    path = Path(folder) / f"{lowered.backend}.pte"
    with path.open("wb") as file:
        write_program(lowered.emitted, file)
    return path


def _in_runtime(pte: Path) -> _Run:
    program = OracleProgram(pte)
    return lambda inputs: program.run(inputs)


def _in_reference(pte: Path) -> _Run:
    program = read_program(pte)
    return Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run


def refusal(case: Case) -> str | None:
    """Returns the code of the first error of a case; None without an error."""
    try:
        measure(case)
    except DelegatecError as error:
        return error.diagnostics[0].code
    return None
