# SPDX-License-Identifier: Apache-2.0
"""Comparison of a `.pte` program with the exported model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.constant_methods import flatten
from delegatec.edge.draws import drawn_values
from delegatec.edge.runnable import runnable
from delegatec.program.reader import read_flat_tensors, read_program
from delegatec.program.reader.model import Program
from delegatec.samples.depth import rounding_depth
from delegatec.samples.inputs import Inputs, Sample, Trial
from delegatec.samples.recorded import RecordedSamples
from delegatec.samples.tolerances import Tolerance, Tolerances
from delegatec.verify.calls import Calls, matching, mismatch
from delegatec.verify.executors import Executor, ReferenceExecutor, RuntimeExecutor
from delegatec.verify.interpreter import Backends
from delegatec.verify.outputs import MODULE, Call, OutputResult, Outputs, vacuous
from delegatec.verify.runtime import Runtime
from delegatec.verify.table import table, worst


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
        """Returns a table of the worst calls."""
        return table(self.results)

    def worst(self) -> list[OutputResult]:
        """Returns the worst calls: see `delegatec.verify.table.worst`."""
        return worst(self.results)


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
    runtimes: Sequence[Runtime] = (),
    recorded: RecordedSamples | None = None,
    minimum_snr: float | None = None,
) -> Verification:
    """Runs every method of a program on this host and compares it with eager mode.

    Each method is called with its example inputs, then with `samples`, then with `seeds` variations of the
    example, in one sequence on both sides, so that mutable state is compared, too.

    Args:
        pte: the program.
        exported: method -> its exported program, with example inputs; may be empty if there is `recorded`.
        backends: the registry; its reference executors run the delegates.
        atol: absolute tolerance of floating-point outputs, in their unit; by default that of their dtype
            and of the number of sums in a row.
        rtol: relative tolerance likewise.
        of_dtype: tolerances of single dtypes; integers are exact without one.
        seeds: number of variations.
        samples: method -> arguments of further calls.
        only: name of the single call to make, such as "seed 1"; all if empty.
        ptd: the program's external weights.
        constant_methods: expected values of constant methods, compared without tolerance.
        runtimes: run the program as well, with the same inputs.
        recorded: calls of the model itself, which are made after loading the program again.
        minimum_snr: of outputs against those calls, in dB, instead of tolerances: for quantized programs;
            None for the tolerances, -inf for no limit.

    Returns:
        Results and diagnostics: DC502 different values, DC503 another shape or dtype, DC508 a tolerance that
            zeros would meet, DC505 and DC506 a program that fails at run time.

    Raises:
        DelegatecError: DC35x a file that cannot be read, DC360 a data file that lacks a weight, DC501 a
            program that cannot run here or in a runtime, DC507 a program of another model.
    """
    program = read_program(pte)
    data = read_flat_tensors(ptd).entries if ptd is not None else {}
    constants = constant_methods or {}
    present = {method.name for method in program.methods}
    missing = [name for name in (*exported, *constants) if name not in present]
    if missing:
        mismatch(f"the program lacks method {missing[0]!r} of the model")
    inputs = Inputs(seeds, samples or {}, only)
    depths = {name: rounding_depth(model) for name, model in exported.items()}
    outputs = Outputs(Tolerances(atol, rtol, of_dtype or {}), depths, drawn=drawn_values(exported))

    called = {call.method for call in recorded.calls} if recorded is not None else set[str]()
    methods = (*exported, *constants, *sorted((called & present) - {*exported, *constants}))

    def load() -> list[Executor]:
        loaded: list[Executor] = [ReferenceExecutor(program, methods, backends, data)]
        loaded += [RuntimeExecutor(runtime, program, pte, ptd if data else None) for runtime in runtimes]
        return loaded

    executors = load()
    buffers: dict[str, torch.Tensor] = {}
    for name, model in exported.items():
        count = len(program.method(name).inputs)
        _verify_method(name, model, count, executors, buffers, inputs, outputs)
    outputs.diagnostics.extend(vacuous(outputs.results))
    for name, value in constants.items():
        for executor in executors:
            _verify_constants(name, flatten(value)[0], executor, outputs)
    if recorded is not None and recorded.calls:
        executors.clear()  # A large program is in memory once.
        _verify_recorded(recorded, program, load(), outputs, minimum_snr)
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
        mismatch(f"method {name!r} of the model has no example inputs")
    eager, calls = runnable(exported, buffers), Calls(executors, outputs)
    for trial in inputs.trials(name, exported):
        if not calls.compare(name, trial.name, trial.leaves, count, partial(_call, eager, trial)):
            return


def _call(eager: torch.nn.Module, trial: Trial) -> tuple[list[tuple[str, Any]], list[Any]]:
    """Returns the leaves of a result with their paths, and the inputs afterwards."""
    with torch.no_grad():
        result = eager(*trial.args, **trial.kwargs)
    leaves = pytree.tree_flatten_with_path(result)[0]
    after = pytree.tree_leaves((trial.args, trial.kwargs))
    return [(pytree.keystr(path), leaf) for path, leaf in leaves], after


def _verify_recorded(
    samples: RecordedSamples,
    program: Program,
    executors: Sequence[Executor],
    outputs: Outputs,
    minimum_snr: float | None,
) -> None:
    """Compares with the module itself. Outputs that differ from the exported program are reported once."""
    own = Outputs(outputs.tolerances, outputs.depths, minimum_snr)
    calls = Calls(executors, own, MODULE)
    counts = {method.name: len(method.inputs) for method in program.methods}
    for call in samples.calls:
        if call.method not in counts:
            mismatch(f"the program lacks method {call.method!r} of the model's samples")
        after = [call.written.get(index, value) for index, value in enumerate(call.inputs)]
        expected = partial(lambda *pair: pair, call.outputs, after)
        if not calls.compare(call.method, call.name, call.inputs, counts[call.method], expected):
            break
    known = {(each.method, each.output, each.executor) for each in outputs.results if not each.passed}
    told = [
        *outputs.diagnostics,
        *(each.problem for each in own.results if (each.method, each.output, each.executor) in known),
    ]
    outputs.results.extend(own.results)
    outputs.diagnostics.extend(each for each in own.diagnostics if each not in told)


def _verify_constants(name: str, expected: Sequence[Any], executor: Executor, outputs: Outputs) -> None:
    exact = replace(outputs, tolerances=Tolerances(0.0, 0.0))
    call = Call(name, "constant", executor.name)
    try:
        actual = executor.run(name, [])
    except DelegatecError as error:
        outputs.diagnostics.extend(error.diagnostics)
        return
    for index, (a, e) in enumerate(zip(actual, matching(expected, len(actual), name), strict=True)):
        if isinstance(e, torch.Tensor):
            exact.compare(call, index, "", a, e)
        elif repr(a) != repr(e):  # distinguishes 1 from 1.0 and True; nan equals nan
            message = f"{call}, output {index} is {a!r}; the model gives {e!r}"
            outputs.diagnostics.append(Diagnostic(code="DC502", message=message))
