# SPDX-License-Identifier: Apache-2.0
"""Runs lowered programs: in the stock runtime, from a mapped file, or in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from executorch.extension.pybindings import _portable_lib

from delegatec.backends import builtin_backends
from delegatec.delegation.registry import BackendRegistry
from delegatec.lowering import Program
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.arena import Arena
from delegatec.verify.interpreter import Interpreter
from tests.generated.examples import Call
from tests.generated.expected import Expected, copied, difference

# Runs a method with inputs, to which it may write, and returns its outputs.
Run = Callable[[str, Sequence[Any]], list[Any]]


def written(lowered: Program, path: Path) -> Path:
    """Writes a program next to its `.pt2`."""
    pte = path.with_suffix(".pte")
    with pte.open("wb") as file:
        write_program(lowered.emitted, file)
    return pte


def runtime(pte: Path, methods: Sequence[str]) -> Run:
    """Loads a program in the stock runtime. Its methods share state, so that all are loaded first."""
    program = _portable_lib._load_program(str(pte))
    loaded = {name: program.load_method(name) for name in methods}

    def run(method: str, inputs: Sequence[Any]) -> list[Any]:
        return [copied(output) for output in loaded[method].call(list(inputs))]

    return run


def interpreter(pte: Path, methods: Sequence[str], backends: BackendRegistry | None = None) -> Run:
    """Loads a program in the interpreter, with the reference executors of its backends by default."""
    program = read_program(pte)
    named, shared = program.named_bytes(), dict[int, Arena]()
    loaded = {
        name: Interpreter(
            program.method(name), backends or builtin_backends(), named_data=named, shared=shared
        )
        for name in methods
    }
    return lambda method, inputs: loaded[method].run(inputs)


def results_of(run: Run, calls: Sequence[Call]) -> list[list[Any]]:
    """Returns for each call the outputs, then the inputs as they are after it."""
    found = []
    for call in calls:
        inputs = [tensor.clone() for tensor in call.inputs]
        found.append([*run(call.method, inputs), *inputs])
    return found


def wrong(
    found: Sequence[Sequence[Any]], calls: Sequence[Call], wanted: Expected, compare: bool, where: str = ""
) -> str:
    """Returns the first difference from eager mode; "" if there is none.

    Args:
        found: the result of `results_of`.
        calls: the calls.
        wanted: the results in eager mode.
        compare: whether values are compared, rather than their count alone.
        where: the executor of the program, for the text.
    """
    for number, (call, results, values) in enumerate(zip(calls, found, wanted.calls, strict=True)):
        outputs = len(values) - len(call.inputs)
        if len(results) != len(values):
            return f"{where}{len(results) - len(call.inputs)} results for {outputs}"
        for i, (result, value) in enumerate(zip(results, values, strict=True)):
            text = difference(result, value) if compare else ""
            if text:
                name = f"output {i}" if i < outputs else f"input {i - outputs} after it"
                branch = ", of sizes that torch.export's guards exclude" if call.is_guarded else ""
                return f"{where}call {number} of {call.method}{branch}, {name}: {text}"
    return ""
