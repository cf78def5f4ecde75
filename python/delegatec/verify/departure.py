# SPDX-License-Identifier: Apache-2.0
"""Finds the first value of a program that departs from eager mode, by bisection.

A delegate shows its results only, and values inside it may have another layout or dtype than in eager mode.
So the values are those of the exported program: to look at one, the model is lowered again, as a program that
returns this value, and both sides run. Delegates and kernels are treated alike, and every value that is
compared is one that the model's author knows.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.edge.source import location_of
from delegatec.edge.state import written_state
from delegatec.program import EmittedProgram, write_program
from delegatec.samples.inputs import Sample
from delegatec.samples.tolerances import Tolerance
from delegatec.verify.interpreter import Backends
from delegatec.verify.outputs import OutputResult
from delegatec.verify.runtime import Runtime
from delegatec.verify.tap import candidates, returned, tap
from delegatec.verify.verification import verify_program

Methods = Mapping[str, ExportedProgram]


@dataclass(frozen=True)
class Search:
    """Where to look for a departure.

    Attributes:
        load: returns the exported methods, which the search may edit, each time anew.
        lower: lowers methods like the program that failed.
        backends: run the delegates.
        atol: absolute tolerance; None for the default of each dtype.
        rtol: relative tolerance likewise.
        of_dtype: tolerances of single dtypes.
        seeds: number of variations of the verification that failed.
        samples: its given inputs.
        runtimes: its runtimes: a value that departs in one is looked for there.
        is_late: whether to stop, with what is known by then.
        on_value: is called with the name of each value before it is compared.
    """

    load: Callable[[], dict[str, ExportedProgram]]
    lower: Callable[[Methods], EmittedProgram]
    backends: Backends
    atol: float | None
    rtol: float | None
    of_dtype: Mapping[torch.dtype, Tolerance]
    seeds: int
    samples: Mapping[str, Sequence[Sample]]
    runtimes: Sequence[Runtime] = ()
    is_late: Callable[[], bool] = lambda: False
    on_value: Callable[[str], None] = lambda _: None

    def find(self, failure: OutputResult) -> Diagnostic | None:
        """Returns the first departure on the way to a wrong output; None for an output that is not computed.

        Args:
            failure: a result that did not pass.
        """
        exported = self.load()[failure.method]
        root = returned(exported, failure.path)
        if root is None:
            return None
        return _Bisection(self, failure, exported).run(root)

    def value(self, name: str, failure: OutputResult) -> OutputResult | None:
        """Compares one value, in the call that failed; None if it cannot be lowered or run alone."""
        methods = self.load()
        has_state = bool(written_state(methods.values()))
        names = list(methods)
        if has_state:  # methods before it may have written to the state
            methods = {each: methods[each] for each in names[: names.index(failure.method) + 1]}
        else:
            methods = {failure.method: methods[failure.method]}
        again = self.load()
        tap(methods[failure.method], name)
        tap(again[failure.method], name)
        handle, path = tempfile.mkstemp(suffix=".pte")
        try:
            with os.fdopen(handle, "wb") as file:
                write_program(self.lower({each: again[each] for each in methods}), file)
            verification = verify_program(
                path,
                methods,
                self.backends,
                atol=self.atol,
                rtol=self.rtol,
                of_dtype=self.of_dtype,
                seeds=self.seeds,
                samples=self.samples,
                only="" if has_state else failure.trial,
                runtimes=[each for each in self.runtimes if each.name == failure.executor],
            )
        except DelegatecError:
            return None
        finally:
            os.unlink(path)
        found = [each for each in verification.results if (each.call, each.output) == (failure.call, 0)]
        return found[0] if found else None


class _Bisection:
    def __init__(self, search: Search, failure: OutputResult, exported: ExportedProgram) -> None:
        self._search, self._failure, self._exported = search, failure, exported
        self._nodes = {node.name: node for node in exported.graph.nodes}
        self._known: dict[str, OutputResult | None] = {}

    def run(self, root: str) -> Diagnostic:
        first = self._value(root)
        if first is None or first.passed:
            return self._not_again(first)
        found = root
        while True:
            found, least = self._first(found)
            if self._search.is_late():
                return self._described(found, f"; the search ended at this point, after {least}")
            # Values that departed may be right again later: the operands decide.
            wrong = [name for name in self._operands(found) if self._departs(name)]
            if not wrong:
                return self._described(found)
            found = wrong[0]

    def _first(self, found: str) -> tuple[str, str]:
        """Returns the first operand, direct or not, that departs, and the last right one before it."""
        order = candidates(self._exported, found)
        right = -1
        while len(order) - right > 2 and not self._search.is_late():
            middle = (right + len(order) - 1) // 2
            value = self._value(order[middle])
            if value is None:
                del order[middle]
            elif value.passed:
                right = middle
            else:
                del order[middle + 1 :]
        return order[-1], order[right] if right >= 0 else "the inputs"

    def _value(self, name: str) -> OutputResult | None:
        if name not in self._known:
            self._search.on_value(name)
            self._known[name] = self._search.value(name, self._failure)
        return self._known[name]

    def _departs(self, name: str) -> bool:
        value = self._value(name)
        return value is not None and not value.passed

    def _operands(self, name: str) -> list[str]:
        """Returns the candidates that a value is computed from directly, or through other nodes."""
        known = set(candidates(self._exported, name)) - {name}
        found: dict[str, None] = {}
        waiting = [*self._nodes[name].all_input_nodes]
        while waiting:
            node = waiting.pop()
            if node.name in known:
                found[node.name] = None
            else:
                waiting += node.all_input_nodes
        return [each for each in self._nodes if each in found]

    def _described(self, name: str, note: str = "") -> Diagnostic:
        node = self._nodes[name]
        value = self._known[name]
        assert value is not None
        operands = [(each, self._known.get(each)) for each in self._operands(name)]
        errors = [f"{each} ({_error(result)})" for each, result in operands if result is not None]
        given = "none of its operands can be compared" if operands else "it reads inputs only"
        if errors:
            given = f"its operands are within tolerance: {', '.join(errors)}"
        if note:
            given = "it is the first of those that were compared"
        return Diagnostic(
            "DC510",
            f"the first value that departs in {self._failure.call}, is {node.target} ({value.kind}):"
            f" {_error(value)}; {given}{note}",
            location=_location(node.meta),
            node=name,
            expected=f"|difference| <= {value.tolerance}",
            help=self._trail(),
        )

    def _trail(self) -> str:
        """Returns the values that were compared, in execution order."""
        texts = [
            f"{name} {_error(value)}{'' if value.passed else ' DEPARTS'}"
            for name in self._nodes
            if (value := self._known.get(name)) is not None
        ]
        return f"compared on the way: {'; '.join(texts)}"

    def _not_again(self, value: OutputResult | None) -> Diagnostic:
        state = "cannot be lowered again" if value is None else f"is right ({_error(value)}) if lowered again"
        return Diagnostic(
            "DC510",
            f"no value departs in {self._failure.call}: output {self._failure.output} {state}",
            help="build the program again; if it stays wrong, values that share memory overwrite each other",
        )


def _error(value: OutputResult) -> str:
    return "another dtype or shape" if value.comparison is None else f"max abs {value.comparison.max_abs:.3g}"


def _location(meta: Mapping[str, object]) -> SourceLocation | None:
    trace = meta.get("stack_trace")
    return location_of(trace if isinstance(trace, str) else None)
