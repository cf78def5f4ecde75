# SPDX-License-Identifier: Apache-2.0
"""Comparison of a `.pte` program with the exported model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.constant_methods import flatten
from delegatec.edge.runnable import runnable
from delegatec.program.reader import read_flat_tensors, read_program
from delegatec.samples.inputs import Inputs, Sample
from delegatec.samples.tolerances import Tolerance, Tolerances
from delegatec.verify.executors import Executor, ReferenceExecutor, RuntimeExecutor
from delegatec.verify.interpreter import Backends
from delegatec.verify.outputs import FIGURES, Call, OutputResult, Outputs, figures, vacuous
from delegatec.verify.runtime import Runtime

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        results: the results for each output of each call.
        diagnostics: errors; empty if the program is correct.
    """

    results: tuple[OutputResult, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def passed(self) -> bool:
        """Whether the program is correct."""
        return not self.diagnostics

    def table(self) -> str:
        """Returns a table of the worst call of each output, in each executor if there are several."""
        several = len({result.executor for result in self.results}) > 1
        place: tuple[str, ...] = ("runs in",) if several else ()
        rows: list[tuple[str, ...]] = [("method", "output", "", *place, "worst call", *FIGURES, "")]
        for result in self.worst():
            c = result.comparison
            verdict = "ok" if result.passed else "FAILED"
            if c is not None and c.passed and c.vacuous:
                verdict = "ok, as zeros would be"
            output = f"{result.output} {result.path}".strip()
            place = (result.executor,) if several else ()
            rows.append((result.method, output, result.kind, *place, result.trial, *figures(c), verdict))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join(lines)

    def worst(self) -> list[OutputResult]:
        """Returns for each output, in each executor, the call with the largest difference from eager mode."""
        worst: dict[tuple[str, int, str], OutputResult] = {}
        for result in self.results:
            key = result.method, result.output, result.executor
            if key not in worst or _badness(result) > _badness(worst[key]):
                worst[key] = result
        return list(worst.values())


def _badness(result: OutputResult) -> tuple[bool, float]:
    return not result.passed, result.comparison.max_abs if result.comparison else math.inf


def verify_program(
    pte: Path | str,
    exported: Mapping[str, ExportedProgram],
    backends: Backends,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    of_dtype: Mapping[torch.dtype, Tolerance] | None = None,
    seeds: int = 3,
    samples: Mapping[str, Sequence[Sample]] | None = None,
    only: str = "",
    ptd: Path | str | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    runtime: Runtime | None = None,
) -> Verification:
    """Runs every method of a program on this host and compares it with eager mode.

    Each method is called with its example inputs, then with `samples`, then with `seeds` variations of the
    example, in one sequence on both sides, so that mutable state is compared, too.

    Args:
        pte: the program.
        exported: method -> its exported program, with example inputs.
        backends: the registry; its reference executors run the delegates.
        atol: absolute tolerance of floating-point outputs, in their unit; by default that of their dtype.
        rtol: relative tolerance likewise.
        of_dtype: tolerances of single dtypes; integers are exact without one.
        seeds: number of variations.
        samples: method -> arguments of further calls.
        only: name of the single call to make, such as "seed 1"; all if empty.
        ptd: the program's external weights.
        constant_methods: expected values of constant methods, compared without tolerance.
        runtime: runs the program as well, with the same inputs.

    Returns:
        Results and diagnostics: DC502 different values, DC503 another shape or dtype, DC508 a tolerance that
            zeros would meet, DC505 and DC506 a program that fails at run time.

    Raises:
        DelegatecError: DC35x a file that cannot be read, DC360 a data file that lacks a weight, DC501 a
            program that cannot run here or in the runtime, DC507 a program of another model.
    """
    program = read_program(pte)
    data = read_flat_tensors(ptd).entries if ptd is not None else {}
    constants = constant_methods or {}
    present = {method.name for method in program.methods}
    missing = [name for name in (*exported, *constants) if name not in present]
    if missing:
        _mismatch(f"the program lacks method {missing[0]!r} of the model")
    inputs = Inputs(seeds, samples or {}, only)
    outputs = Outputs(Tolerances(atol, rtol, of_dtype or {}))
    executors: list[Executor] = [ReferenceExecutor(program, (*exported, *constants), backends, data)]
    if runtime is not None:
        executors.append(RuntimeExecutor(runtime, program, pte, ptd if data else None))
    buffers: dict[str, torch.Tensor] = {}
    for name, model in exported.items():
        count = len(program.method(name).inputs)
        _verify_method(name, model, count, executors, buffers, inputs, outputs)
    outputs.diagnostics.extend(vacuous(outputs.results))
    for name, value in constants.items():
        for executor in executors:
            _verify_constants(name, flatten(value)[0], executor, outputs)
    return Verification(tuple(outputs.results), tuple(outputs.diagnostics))


def _verify_method(
    name: str,
    exported: ExportedProgram,
    count: int,
    executors: Sequence[Executor],
    buffers: dict[str, torch.Tensor],
    inputs: Inputs,
    outputs: Outputs,
) -> None:
    if exported.example_inputs is None:
        _mismatch(f"method {name!r} of the model has no example inputs")
    eager = runnable(exported, buffers)
    running = [*executors]
    for trial in inputs.trials(name, exported):
        before = _matching(trial.leaves, count, f"inputs of method {name!r}")
        ran: list[tuple[Executor, list[Any], list[Any]]] = []
        for executor in [*running]:
            passed = [value.clone() if isinstance(value, torch.Tensor) else value for value in before]
            try:
                ran.append((executor, passed, executor.run(name, passed)))
            except DelegatecError as error:
                outputs.diagnostics.extend(error.diagnostics)
                running.remove(executor)
        if not ran:
            return
        with torch.no_grad():
            wanted = _named(eager(*trial.args, **trial.kwargs))
        after = _matching(pytree.tree_leaves((trial.args, trial.kwargs)), count, "inputs")
        for executor, passed, actual in ran:
            call = Call(name, trial.name, executor.name)
            expected = _matching(wanted, len(actual), f"outputs of method {name!r}")
            for index, (a, (path, e)) in enumerate(zip(actual, expected, strict=True)):
                outputs.compare(call, index, path, a, e)
            for index, (old, a, e) in enumerate(zip(before, passed, after, strict=True)):
                # writes to inputs, by the program or the model
                if isinstance(old, torch.Tensor) and not (_is_same(old, a) and _is_same(old, e)):
                    outputs.compare(call, len(expected) + index, f"(input {index})", a, e)


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same bits."""
    return bytes(tensor_bytes(first.contiguous())) == bytes(tensor_bytes(second.contiguous()))


def _named(result: Any) -> list[tuple[str, Any]]:
    """Returns the leaves of a result with their paths."""
    return [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(result)[0]]


def _verify_constants(name: str, expected: Sequence[Any], executor: Executor, outputs: Outputs) -> None:
    exact = Outputs(Tolerances(0.0, 0.0), outputs.results, outputs.diagnostics)
    call = Call(name, "constant", executor.name)
    actual = executor.run(name, [])
    for index, (a, e) in enumerate(zip(actual, _matching(expected, len(actual), name), strict=True)):
        if isinstance(e, torch.Tensor):
            exact.compare(call, index, "", a, e)
        elif repr(a) != repr(e):  # distinguishes 1 from 1.0 and True; nan equals nan
            message = f"{call}, output {index} is {a!r}; the model gives {e!r}"
            outputs.diagnostics.append(Diagnostic(code="DC502", message=message))


def _matching(values: Sequence[_Value], count: int, what: str) -> list[_Value]:
    """Returns the values that a program takes or returns: all, or just the tensors if it omits constants.

    Values may be pairs with their name.
    """
    if len(values) == count:
        return list(values)
    tensors = [v for v in values if isinstance(v[1] if isinstance(v, tuple) else v, torch.Tensor)]
    if len(tensors) != count:
        _mismatch(f"{what}: the program has {count}; the model has {len(values)}")
    return tensors


def _mismatch(message: str) -> NoReturn:
    help = "build the program and the .pt2 from the same model"
    raise DelegatecError([Diagnostic(code="DC507", message=message, help=help)])
