# SPDX-License-Identifier: Apache-2.0
"""Recording of golden samples: calls of the user's module, with which the exported programs are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import torch
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.draws import is_random
from delegatec.frontend.eager.calls import Returned, Run, counted_calls, other_tensors, run_calls
from delegatec.frontend.eager.causes import Case, explained, lost_state
from delegatec.frontend.eager.constants import constants_read
from delegatec.frontend.eager.differences import first_differences, first_differences_of_random
from delegatec.frontend.eager.plan import Planned, again, planned_calls
from delegatec.frontend.eager.process import Pristine, TaskEndedError
from delegatec.frontend.model import Model
from delegatec.samples.recorded import RecordedCall, RecordedSamples

# How the error of a call that runs out of memory begins.
_OUT_OF_MEMORY: Final = "out of memory"


def record(
    eager: Pristine,
    model: Model,
    programs: Mapping[str, ExportedProgram],
    count: int,
    held: Mapping[str, torch.Tensor] = MappingProxyType({}),
) -> tuple[RecordedSamples, list[Diagnostic]]:
    """Calls the user's module, and compares the exported programs with it.

    Methods that draw random numbers are compared with the same seeds. Their calls are not recorded: the
    kernels that run programs draw other numbers.

    Args:
        eager: the module, as the user's code left it.
        model: the model.
        programs: method -> its program, as it is written to the file.
        count: calls of each method.
        held: name -> tensor of the module outside of parameters and buffers, before torch.export ran it.

    Returns:
        The samples, and a problem for each method that differs.

    Raises:
        DelegatecError: DC110, an example input that the module fails on; DC128, the module cannot be called
            in a copy of this process.
    """
    random = {name: program for name, program in programs.items() if is_random(program)}
    others = {name: program for name, program in programs.items() if name not in random}
    try:
        planned, returned, problems = _compared(eager, model, others, count, held, False)
        problems += _compared(eager, model, random, count, held, True)[2]
    except TaskEndedError as error:
        raise DelegatecError([_ended(model)]) from error
    calls = [_recorded(*each) for each in zip(planned, returned, strict=True)]
    return RecordedSamples(tuple(calls)), problems


def _compared(
    eager: Pristine,
    model: Model,
    programs: Mapping[str, ExportedProgram],
    count: int,
    held: Mapping[str, torch.Tensor],
    are_random: bool,
) -> tuple[list[Planned], list[Returned], list[Diagnostic]]:
    """Returns the calls of the module, their results, and a problem for each method that differs."""
    planned = planned_calls(programs, count, are_random)
    if not planned:
        return [], [], []
    rejected: dict[str, Diagnostic] = {}
    planned, run = _run(eager, planned, model, rejected)
    if run.touched and len(planned) == 1:
        planned, run = _run(eager, [*planned, again(planned[0])], model, rejected)
    returned = run.returned
    case = Case(eager, model, programs, planned, returned)
    compare = first_differences_of_random if are_random else first_differences
    problems = [explained(case, each) for each in compare(programs, planned, returned)]
    problems = problems or [*rejected.values()]
    if not problems and run.changed:
        problems += _counters(case)
    if not problems and run.replaced:
        problems += _replaced(case, {name: held[name] for name in run.replaced if name in held})
    return planned, returned, problems


def _run(
    eager: Pristine, planned: Sequence[Planned], model: Model, rejected: dict[str, Diagnostic]
) -> tuple[list[Planned], Run]:
    """Returns the results of the module for the calls that it accepts: variations of values may be invalid.

    Random numbers and the clock differ from torch.export's, so that a constant that comes from them is a
    difference.

    Args:
        eager: the module.
        planned: the calls.
        model: the model.
        rejected: receives, for each method, a problem for sizes that the module rejects.
    """
    planned = list(planned)
    while True:
        run: Run = eager.run(run_calls, [call for _, _, call in planned], True)
        returned = run.returned
        if not returned[-1].error:
            return planned, run
        method, trial, _ = planned[len(returned) - 1]
        if trial.is_example:
            raise DelegatecError([_failed(method, returned[-1].error, model)])
        if trial.is_resized and not returned[-1].error.startswith(_OUT_OF_MEMORY):
            rejected.setdefault(method, _rejected(method, trial.name, returned[-1].error, model))
        del planned[len(returned) - 1]


def _counters(case: Case) -> list[Diagnostic]:
    """Returns a problem for each method that changes a plain attribute in each call, even if unused."""
    examples = [call for _, trial, call in case.planned if trial.is_example]
    changed = [(call.method, case.eager.run(counted_calls, call)) for call in examples]
    return [lost_state(case.model, method, names, "") for method, names in changed if names]


def _replaced(case: Case, tensors: Mapping[str, torch.Tensor]) -> list[Diagnostic]:
    """Returns a problem for each method whose program reads tensors that calls of the module replace.

    The results may be close to those of the calls nevertheless, or not depend on them for these inputs.
    """
    read = {method: _names_read(program, tensors) for method, program in case.programs.items()}
    if not any(read.values()):
        return []
    others = case.eager.run(other_tensors, [call for _, _, call in case.planned])
    lost = {method: [name for name in names if name in others] for method, names in read.items()}
    return [lost_state(case.model, method, names, "") for method, names in lost.items() if names]


def _names_read(program: ExportedProgram, tensors: Mapping[str, torch.Tensor]) -> list[str]:
    read = {id(each) for each in constants_read(program)}
    return [name for name, tensor in tensors.items() if id(tensor) in read]


def _recorded(planned: Planned, returned: Returned) -> RecordedCall:
    method, trial, _ = planned
    return RecordedCall(method, trial.name, tuple(trial.leaves), returned.outputs, returned.written)


def _failed(method: str, error: str, model: Model) -> Diagnostic:
    return Diagnostic(
        "DC110",
        f"{model.all_methods()[method].function}() fails on its example inputs: {error}",
        location=model.location,
        expected="a module that runs in eager mode, which the program is compared with",
        help="export on a machine with more memory; with samples = 0, nothing is compared"
        if error.startswith(_OUT_OF_MEMORY)
        else "check what the module does only while torch.export traces it, or set samples = 0",
    )


def _rejected(method: str, name: str, error: str, model: Model) -> Diagnostic:
    sizes = name.partition(" (")[2].removesuffix(")")
    return Diagnostic(
        "DC113",
        f"{model.all_methods()[method].function}() fails for sizes in the ranges of dynamic_shapes, {sizes}:"
        f" {error}",
        location=model.location,
        expected="a module that runs for all sizes in the ranges of dynamic_shapes",
        help="narrow the range: torch.export.Dim(name, min=..., max=...)",
    )


def _ended(model: Model) -> Diagnostic:
    return Diagnostic(
        "DC128",
        "the module ended the process that calls it in eager mode, or did not return",
        location=model.location,
        expected="a module that returns when it is called, and starts no threads",
        help="remove threads and calls such as os._exit; with samples = 0, nothing is compared",
    )
