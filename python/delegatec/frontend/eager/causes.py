# SPDX-License-Identifier: Apache-2.0
"""Why an exported program differs from the user's module, as far as further calls of the module show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram

from delegatec.diagnostics import Diagnostic
from delegatec.frontend.eager.calls import Returned, changed_state, run_calls, same_bits
from delegatec.frontend.eager.differences import Difference
from delegatec.frontend.eager.plan import Planned
from delegatec.frontend.eager.process import Pristine
from delegatec.frontend.model import Model


@dataclass(frozen=True)
class Case:
    """The data about a model whose programs differ from it.

    Attributes:
        eager: the module, as the user's code left it.
        model: the model.
        programs: method -> its program.
        planned: the calls.
        returned: the result of the module for each.
    """

    eager: Pristine
    model: Model
    programs: Mapping[str, ExportedProgram]
    planned: Sequence[Planned]
    returned: Sequence[Returned]


def explained(case: Case, difference: Difference) -> Diagnostic:
    """Returns the diagnostic for a difference."""
    method, trial, call = case.planned[difference.index]
    calls = [each for _, _, each in case.planned[: difference.index + 1]]
    wanted = case.returned[difference.index]
    where = _where(case, difference)
    function = case.model.all_methods()[method].function
    again = case.eager.run(run_calls, calls, False).returned[-1]
    if not _same(again, wanted):
        return Diagnostic(
            "DC129",
            f"{function}() returns different values each time the model is built and called: {where}",
            location=case.model.location,
            expected="values that depend on inputs, weights and buffers only",
            help="pass random values and the time as inputs: the program would contain constants instead",
        )
    alone = case.eager.run(run_calls, [call], True).returned[-1]
    changed = case.eager.run(changed_state, [*calls, call])
    if changed or not _same(alone, wanted):
        return lost_state(case.model, method, changed, where)
    if trial.is_resized:
        return Diagnostic(
            "DC113",
            f"{function}() takes a different branch for sizes other than those of the example: {where}",
            location=case.model.location,
            expected="one sequence of operators for all sizes in the ranges of dynamic_shapes",
            help="leave this size static, and add a method for each size, or restrict its range",
        )
    return Diagnostic(
        "DC128",
        f"the exported program of {function}() differs from the module: {where}",
        location=case.model.location,
        expected="a module that does the same in eager mode and while torch.export traces it",
        help="check code that depends on torch.compiler.is_exporting(), on hooks, or on training",
    )


def lost_state(model: Model, method: str, changed: Sequence[str], where: str) -> Diagnostic:
    """Returns the diagnostic for state that a program lacks.

    Args:
        model: the model.
        method: name of the method.
        changed: names of the values that calls change.
        where: the difference.
    """
    names = ", ".join(repr(name) for name in changed)
    what = f"changes {names}" if changed else "keeps state outside of buffers"
    function = model.all_methods()[method].function
    return Diagnostic(
        "DC124",
        f"{function}() {what}, on which later calls depend{where and f': {where}'}",
        location=model.location,
        expected="state in buffers that are updated in place: a program has no Python objects",
        help="register it as a buffer and update that in place, or pass it as an input and return it",
    )


def _where(case: Case, difference: Difference) -> str:
    method, trial, _ = case.planned[difference.index]
    before = [name for name, _, _ in case.planned[: difference.index]].count(method)
    call = trial.name if not before else f"{trial.name}, call {before + 1} of {method}"
    return f"for {call}, {difference.text}"


def _same(first: Returned, second: Returned) -> bool:
    """Whether two calls returned the same bits."""
    if first.error or second.error or len(first.outputs) != len(second.outputs):
        return first.error == second.error and len(first.outputs) == len(second.outputs)
    pairs = zip(first.outputs, second.outputs, strict=True)
    values = [(one, other) for (_, one), (_, other) in pairs]
    values += [(first.written.get(i), second.written.get(i)) for i in {*first.written, *second.written}]
    return all(
        same_bits(one, other)
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        else repr(one) == repr(other)
        for one, other in values
    )
