# SPDX-License-Identifier: Apache-2.0
"""Reader of ETDumps, which the ExecuTorch runtime records with its event tracer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delegatec_schemas import etdump as schema

from delegatec.files import HEAD_BYTES, check_regular, kind_of_file
from delegatec.flatbuffer import Table, fail

_IDENTIFIER: Final = b"ED00"
_CODE: Final = "DC362"
_HELP: Final = "pass a file of ETDumpGen::get_etdump_data(), of a runtime with event tracing"
# The event around all instructions of a method.
_EXECUTION: Final = "Method::execute"
# The event around a call.
_CALLS: Final = frozenset({"DELEGATE_CALL", "OPERATOR_CALL"})
# The event around a kernel, in its call.
_KERNEL: Final = "native_call_"


@dataclass(frozen=True)
class Event:
    """Something that took time.

    Attributes:
        instruction: index of the instruction of the method.
        operation: inside a delegate, what its runtime calls the operation: a name or a number; None for the
            call of a delegate or of a kernel as a whole.
        nanoseconds: its duration, or in the unit of the platform's clock.
        kernel: name of the kernel that is called, such as "add.out"; "" for others, or if it is not recorded.
    """

    instruction: int
    operation: str | int | None
    nanoseconds: int
    kernel: str = ""


@dataclass(frozen=True)
class Run:
    """One execution of a method.

    Attributes:
        nanoseconds: its duration.
        events: calls of delegates and kernels, and operations inside delegates, in the order of their ends.
    """

    nanoseconds: int
    events: tuple[Event, ...]


def read_etdump(path: Path | str) -> tuple[Run, ...]:
    """Reads the executions of methods that a file records.

    Args:
        path: the file.

    Raises:
        DelegatecError: DC362, it is not an ETDump, is damaged, or records no execution.
        OSError: it cannot be opened.
    """
    check_regular(path)
    content = Path(path).read_bytes()
    runs = tuple(run for table in _root(content).children("Runs") for run in _executions(table))
    if not runs:
        fail(_CODE, f"{path} records no execution of a method", _HELP)
    return runs


def _root(content: bytes) -> Table:
    # The runtime writes the size first.
    sized = len(content) >= 12 and content[8:12] == _IDENTIFIER
    buffer = memoryview(content)[4:] if sized else memoryview(content)
    if bytes(buffer[4:8]) != _IDENTIFIER:
        fail(_CODE, f"not an ETDump: {kind_of_file(content[:HEAD_BYTES])}", _HELP)
    if sized and struct.unpack_from("<I", content)[0] > len(buffer):
        fail(_CODE, f"the file ends at byte {len(content)}, before its FlatBuffer does")
    return Table.root(schema.Dump, buffer, _CODE)


def _executions(table: Table) -> list[Run]:
    """Returns the executions in an entry: none for one that records the loading of a program."""
    runs: list[Run] = []
    events: list[Event] = []
    kernel = ""
    for each in table.children("Events"):
        timed = each.child("Timed")
        if timed is None:
            continue
        name, start, end = timed.text("Name"), timed.scalar("Start"), timed.scalar("End")
        if end < start:
            timed.fail(f"ends at {end}, before its start at {start}")
        number, operation = timed.scalar("OperationNumber"), timed.text("OperationName")
        instruction = timed.scalar("Instruction")
        if name == _EXECUTION:
            runs.append(Run(end - start, tuple(events)))
            events = []
        elif name.startswith(_KERNEL):
            kernel = name.removeprefix(_KERNEL)
        elif operation or number >= 0:
            events.append(Event(instruction, operation or number, end - start))
        elif name in _CALLS:
            events.append(Event(instruction, None, end - start, kernel))
            kernel = ""
    return runs
