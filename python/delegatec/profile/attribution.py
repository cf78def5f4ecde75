# SPDX-License-Identifier: Apache-2.0
"""Attribution of recorded times to operations of a program, their modules, and lines of the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from delegatec.delegation import Backend, plugins
from delegatec.flatbuffer import fail
from delegatec.profile.etdump import Event, Run
from delegatec.program.reader.model import DelegateCall, KernelCall, Method

Step = tuple[int, str]
"""An instruction, and the operation inside its delegate: "" for the call as a whole."""


class Backends(Protocol):
    """Finds backends, like a `BackendRegistry`."""

    def by_id(self, backend_id: str) -> Backend:
        """Returns the backend for an id of the runtime. Raises a DelegatecError for an unknown one."""
        ...


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
        origins: the nodes of the exported program that it is for, as in the debug map: each with node,
            operator, module and source.
    """

    instruction: int
    operation: str
    calls: str
    count: int
    nanoseconds: float
    origins: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Profile:
    """What one run of a method takes.

    Attributes:
        method: its name.
        runs: number of runs that were recorded.
        counted: number of runs that the medians are of: without the first, which prepares memory.
        nanoseconds: the median of their durations.
        costs: in the order of the program.
    """

    method: str
    runs: int
    counted: int
    nanoseconds: float
    costs: tuple[Cost, ...]


def profile_of(runs: Sequence[Run], method: Method, debug: Mapping[str, Any], backends: Backends) -> Profile:
    """Attributes the times of runs of one method.

    Args:
        runs: recorded runs; the first is left out if there are several.
        method: the method in the program.
        debug: the method in the program's debug map.
        backends: those of the program's delegates.

    Raises:
        DelegatecError: DC362, the runs are of another program or method.
    """
    attribution = _Attribution(method, debug, backends)
    counted = runs[1:] or runs
    times: dict[Step, list[int]] = defaultdict(list)
    counts: dict[Step, int] = {}
    for run in counted:
        for step, durations in attribution.steps(run).items():
            times[step].append(sum(durations))
            counts[step] = len(durations)
    costs = [
        attribution.cost(step, counts[step], median([*times[step], *[0] * (len(counted) - len(times[step]))]))
        for step in sorted(times, key=lambda step: step[0])
    ]
    total = median(run.nanoseconds for run in counted)
    return Profile(method.name, len(runs), len(counted), total, tuple(costs))


class _Attribution:
    def __init__(self, method: Method, debug: Mapping[str, Any], backends: Backends) -> None:
        self._method, self._debug, self._backends = method, debug, backends
        self._instructions = method.chains[0].instructions if method.chains else ()
        self._delegates = {index: each for each in debug["delegates"] for index in each["instructions"]}
        self._origins: dict[Step, list[int]] = {}

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
        return found

    def _check(self, event: Event) -> None:
        index = event.instruction
        if not 0 <= index < len(self._instructions):
            self._refuse(f"instruction {index}, of {len(self._instructions)}")
        instruction = self._instructions[index]
        if not isinstance(instruction, (DelegateCall, KernelCall)):
            self._refuse(f"a call at instruction {index}, which calls nothing")
        if event.operation is not None and not isinstance(instruction, DelegateCall):
            self._refuse(f"operation {event.operation!r} at instruction {index}, which calls a kernel")

    def _refuse(self, what: str) -> None:
        help = "pass the program that ran, and --method if it has several"
        fail("DC362", f"the ETDump is of another program than method {self._method.name!r}: {what}", help)

    def _operations(self, index: int, events: Sequence[Event]) -> list[Step]:
        if not events:
            return []
        instruction = self._instructions[index]
        assert isinstance(instruction, DelegateCall)
        delegate = self._method.delegates[instruction.delegate]
        names = [each.operation for each in events if each.operation is not None]
        found = plugins.call(
            Backend.profiled_operations, self._backends.by_id(delegate.id), delegate.blob, names
        )
        steps = []
        for name, operation in zip(names, found, strict=True):
            step = index, str(name)
            self._origins[step] = self._delegates[index]["map"].get(str(operation), [])
            steps.append(step)
        return steps

    def cost(self, step: Step, count: int, nanoseconds: float) -> Cost:
        """Returns the cost of a step."""
        index, operation = step
        described = self._debug["instructions"][index]
        handles = self._origins.get(step, described["handles"])
        origins = tuple(
            self._debug["handles"][str(each)] for each in handles if str(each) in self._debug["handles"]
        )
        return Cost(index, operation, described["calls"], count, nanoseconds, origins)
