# SPDX-License-Identifier: Apache-2.0
"""Attribution of recorded times to operations of a program, their modules, and lines of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, Protocol

from delegatec.delegation import Backend, plugins
from delegatec.flatbuffer import fail
from delegatec.profile.etdump import Event, Run
from delegatec.program.reader.model import (
    DelegateCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    Method,
    Tensor,
)

_FIELDS: Final = ("node", "operator", "module", "source", "via")
_HELP: Final = "pass the program that ran, and --method if it has several"

Step = tuple[int, str]
"""An instruction, and the operation inside its delegate: "" for the call as a whole."""


class Backends(Protocol):
    """Finds backends, like a `BackendRegistry`."""

    def by_id(self, backend_id: str) -> Backend:
        """Returns the backend for an id of the runtime. Raises a DelegatecError for an unknown one."""
        ...


@dataclass(frozen=True)
class Origin:
    """A node of the exported program.

    Attributes:
        node: its name.
        operator: such as "aten.linear.default".
        module: path of its module; "" for the model itself.
        source: the user's line; "" if it is not known.
        via: the line of a library below it; "" for none.
    """

    node: str
    operator: str
    module: str
    source: str
    via: str


@dataclass(frozen=True)
class Cost:
    """What one operation, or one call of a kernel, takes.

    Attributes:
        instruction: index of the instruction.
        operation: inside a delegate, what its runtime calls the operation; "" for a kernel, and for what a
            call of a delegate takes besides its operations.
        calls: the kernel, or the delegate.
        count: how often it ran in one run of the method.
        nanoseconds: in one run of the method: the median of all runs.
        origins: the nodes of the exported program that it is for, as in the debug map.
    """

    instruction: int
    operation: str
    calls: str
    count: int
    nanoseconds: float
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Profile:
    """What one run of a method takes.

    Attributes:
        method: its name.
        inputs: types of its inputs, such as "float32[1, 8]".
        runs: number of runs that were recorded.
        counted: number of runs that the medians are of: without the first of a process, which prepares
            memory.
        nanoseconds: the median of their durations.
        rounds: the sum of the medians of the costs in each process alone.
        costs: in the order of the program.
    """

    method: str
    inputs: tuple[str, ...]
    runs: int
    counted: int
    nanoseconds: float
    rounds: tuple[float, ...]
    costs: tuple[Cost, ...]


def profile_of(
    rounds: Sequence[Sequence[Run]], method: Method, debug: Mapping[str, Any], backends: Backends
) -> Profile:
    """Attributes the times of runs of one method.

    Args:
        rounds: the recorded runs of each process; the first is left out if there are several.
        method: the method in the program.
        debug: the method in the program's debug map.
        backends: those of the program's delegates.

    Raises:
        DelegatecError: DC362, the runs are of another program or method.
    """
    attribution = _Attribution(method, debug, backends)
    warm = [[attribution.steps(run) for run in runs[1:] or runs] for runs in rounds]
    medians = _medians([steps for of_process in warm for steps in of_process])
    costs = [attribution.cost(step, *medians[step]) for step in sorted(medians, key=lambda step: step[0])]
    counted = [run.nanoseconds for runs in rounds for run in runs[1:] or runs]
    return Profile(
        method=method.name,
        inputs=input_types(method),
        runs=sum(map(len, rounds)),
        counted=len(counted),
        nanoseconds=median(counted),
        rounds=tuple(sum(time for _, time in _medians(of_process).values()) for of_process in warm),
        costs=tuple(costs),
    )


def _medians(runs: Sequence[Mapping[Step, Sequence[int]]]) -> dict[Step, tuple[int, float]]:
    """Returns how often each step is in a run, and the median of the times of all of these, over runs."""
    times: dict[Step, list[int]] = defaultdict(list)
    counts: dict[Step, int] = {}
    for run in runs:
        for step, durations in run.items():
            times[step].append(sum(durations))
            counts[step] = len(durations)
    return {
        step: (counts[step], median([*of_step, *[0] * (len(runs) - len(of_step))]))
        for step, of_step in times.items()
    }


def input_types(method: Method) -> tuple[str, ...]:
    """Returns the types of a method's inputs as text: a dtype with the largest shape, or a constant."""
    values = [method.values[index] for index in method.inputs]
    return tuple(
        f"{each.kind.name}{list(each.sizes)}" if isinstance(each, Tensor) else type(each).__name__
        for each in values
    )


def without_origins(method: Method) -> Mapping[str, Any]:
    """Returns a debug map of a method that names what it calls, and has no nodes or lines."""
    instructions = method.chains[0].instructions if method.chains else ()
    return {
        "handles": {},
        "instructions": [{"calls": _called(method, each), "handles": []} for each in instructions],
        "delegates": [
            {
                "instructions": [
                    index
                    for index, each in enumerate(instructions)
                    if isinstance(each, DelegateCall) and each.delegate == position
                ],
                "map": {},
            }
            for position in range(len(method.delegates))
        ],
    }


def _called(method: Method, instruction: Instruction) -> str:
    if isinstance(instruction, KernelCall):
        return method.operators[instruction.operator]
    if isinstance(instruction, DelegateCall):
        return method.delegates[instruction.delegate].id
    return type(instruction).__name__


class _Attribution:
    def __init__(self, method: Method, debug: Mapping[str, Any], backends: Backends) -> None:
        self._method, self._debug, self._backends = method, debug, backends
        self._instructions = method.chains[0].instructions if method.chains else ()
        self._delegates = {index: each for each in debug["delegates"] for index in each["instructions"]}
        self._origins: dict[Step, list[int]] = {}
        self._operations_of: dict[tuple[int, tuple[str | int, ...]], Sequence[str | int | None]] = {}

    def steps(self, run: Run) -> dict[Step, list[int]]:
        """Returns the durations of each step of a run."""
        found: dict[Step, list[int]] = defaultdict(list)
        inner: dict[int, list[Event]] = defaultdict(list)
        for event in run.events:
            self._check(event)
            if event.operation is not None:
                inner[event.instruction].append(event)
                continue
            operations = inner.pop(event.instruction, [])
            for step, each in zip(self._operations(event.instruction, operations), operations, strict=True):
                found[step].append(each.nanoseconds)
            rest = event.nanoseconds - sum(each.nanoseconds for each in operations)
            # clocks differ: that of a delegate may count microseconds
            found[event.instruction, ""].append(max(0, rest))
        self._check_is_complete({instruction for instruction, _ in found})
        return found

    def _check_is_complete(self, called: set[int]) -> None:
        if any(isinstance(each, JumpFalseCall) for each in self._instructions):
            return  # some of its calls are not reached
        for index, instruction in enumerate(self._instructions):
            if isinstance(instruction, (DelegateCall, KernelCall)) and index not in called:
                self._refuse(f"it has no call of {_called(self._method, instruction)}, instruction {index}")

    def _check(self, event: Event) -> None:
        index = event.instruction
        if not 0 <= index < len(self._instructions):
            self._refuse(f"instruction {index}, of {len(self._instructions)}")
        instruction = self._instructions[index]
        if not isinstance(instruction, (DelegateCall, KernelCall)):
            self._refuse(f"a call at instruction {index}, which calls nothing")
        if event.operation is not None and not isinstance(instruction, DelegateCall):
            self._refuse(f"operation {event.operation!r} at instruction {index}, which calls a kernel")
        if event.kernel and isinstance(instruction, KernelCall):
            name = self._method.operators[instruction.operator]
            if name.rpartition("::")[2] != event.kernel:
                self._refuse(f"kernel {event.kernel} at instruction {index}, which calls {name}")

    def _refuse(self, what: str) -> None:
        fail("DC362", f"the ETDump is of another program than method {self._method.name!r}: {what}", _HELP)

    def _operations(self, index: int, events: Sequence[Event]) -> list[Step]:
        if not events:
            return []
        instruction = self._instructions[index]
        assert isinstance(instruction, DelegateCall)
        delegate = self._method.delegates[instruction.delegate]
        names = tuple(each.operation for each in events if each.operation is not None)
        if (index, names) not in self._operations_of:
            self._operations_of[index, names] = plugins.call(
                Backend.profiled_operations, self._backends.by_id(delegate.id), delegate.blob, names
            )
        found = self._operations_of[index, names]
        # what a runtime adds has no operation
        unknown = [name for name, operation in zip(names, found, strict=True) if operation is None]
        if len(unknown) > len(names) / 2:
            self._refuse(f"operation {unknown[0]!r} at instruction {index}, which its delegate does not have")
        steps = []
        for name, operation in zip(names, found, strict=True):
            step = index, str(name)
            self._origins[step] = self._delegates[index]["map"].get(str(operation), [])
            steps.append(step)
        return steps

    def cost(self, step: Step, count: int, nanoseconds: float) -> Cost:
        """Returns the cost of a step."""
        index, operation = step
        instruction = self._debug["instructions"][index]
        handles = self._origins.get(step, instruction["handles"])
        origins = tuple(
            Origin(**{name: described[name] for name in _FIELDS})
            for each in handles
            if (described := self._debug["handles"].get(str(each)))
        )
        return Cost(index, operation, instruction["calls"], count, nanoseconds, origins)
