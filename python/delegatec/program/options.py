# SPDX-License-Identifier: Apache-2.0
"""Options for the layout of a program in its file and in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

from delegatec.diagnostics import DelegatecError, Diagnostic

# Kernels load vectors of this many bytes; ExecuTorch's compiler uses this alignment, too.
_LEAST_TENSOR_ALIGNMENT: Final = 16
_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
_MEMORY: Final = re.compile(r"([^=]*)=(\d{1,15})([kmgKMG]?)", re.ASCII)
# Pages have at most 2 MiB; an alignment above 1 GiB is a mistake.
_LARGEST_ALIGNMENT: Final = 2**30


@dataclass(frozen=True)
class Memory:
    """A memory of the device that planned values may be in.

    Attributes:
        name: for messages and reports, such as "sram".
        bytes: what a program may use of it.
    """

    name: str
    bytes: int


@dataclass(frozen=True)
class ProgramOptions:
    """Layout options. Alignments are in bytes: powers of two up to 1 GiB.

    Attributes:
        segment_alignment: alignment of every segment in the file. With the page size (4096, or 16384 on Apple
            devices) the runtime can map segments one by one, and release one after its delegate has been
            initialized.
        constant_alignment: alignment of each constant in its segment, and of the initial bytes of each
            mutable buffer; at least 16.
        delegate_alignment: alignment of each delegate's blob, if more than a segment's.
        inline_delegates: whether blobs are stored inside the FlatBuffer. A reader then has them with the
            program, but cannot free them separately, and writing them takes a copy.
        plan_inputs: whether input tensors are copied into planned memory. If not, the program reads the
            caller's memory, which must stay valid while it runs. Inputs that the program writes to are never
            copied.
        plan_outputs: whether outputs are in planned memory. If not, the caller provides memory for each.
        channels_last_inputs: whether all inputs with four dimensions are channels-last, not only those with a
            channels-last example.
        memories: the memories for planned values, the fastest first, which get memory ids from 1; state that
            methods share is in the one after the last. One without limit by default.
        channels_last_outputs: whether all outputs with four dimensions are channels-last; by default those of
            a method with a channels-last input that are in eager mode.

    Raises:
        DelegatecError: DC310, one diagnostic for each invalid option.
    """

    segment_alignment: int = 128
    constant_alignment: int = 16
    delegate_alignment: int = 16
    inline_delegates: bool = False
    plan_inputs: bool = True
    plan_outputs: bool = True
    channels_last_inputs: bool = False
    channels_last_outputs: bool = False
    memories: tuple[Memory, ...] = ()

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise DelegatecError(problems)

    def _problems(self) -> Iterator[Diagnostic]:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            found, expected = type(value).__name__, type(field.default).__name__
            if found != expected:
                yield Diagnostic(
                    "DC310",
                    f"{field.name} has type {found}",
                    expected=f"the type {expected}",
                    help=f"omit it to use the default, {field.default}",
                )
                continue
            if field.name == "memories":
                yield from _problems_of_memories(value)
            if not field.name.endswith("_alignment"):
                continue
            least = _LEAST_TENSOR_ALIGNMENT if field.name == "constant_alignment" else 1
            if not least <= value <= _LARGEST_ALIGNMENT or value & (value - 1):
                yield Diagnostic(
                    "DC310",
                    f"{field.name} cannot be {value}",
                    expected=f"a power of two from {least} to {_LARGEST_ALIGNMENT}",
                    help=f"omit it to use the default, {field.default}",
                )


def _problems_of_memories(memories: tuple[Memory, ...]) -> Iterator[Diagnostic]:
    wrong = [each for each in memories if not _is_memory(each)]
    for each in wrong:
        yield Diagnostic(
            "DC310",
            f"one of memories is {each!r}",
            expected='delegatec.program.Memory(name, bytes), such as Memory("sram", 512 * 1024)',
        )
    memories = tuple(each for each in memories if _is_memory(each))
    names = [memory.name for memory in memories]
    for memory in memories:
        if not _NAME.fullmatch(memory.name):
            yield Diagnostic(
                "DC310",
                f"a memory cannot be named {memory.name!r}",
                expected='a word of letters, digits and "_", such as "sram"',
            )
        if memory.bytes <= 0:
            yield Diagnostic(
                "DC310",
                f"memory {memory.name} cannot have {memory.bytes} bytes",
                expected="1 or more",
                help="leave out a memory that the program must not use",
            )
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Diagnostic("DC310", f"{names.count(name)} memories are named {name!r}", expected="one")


def _is_memory(value: object) -> bool:
    return isinstance(value, Memory) and isinstance(value.name, str) and type(value.bytes) is int


def memory_of(text: str) -> Memory:
    """Reads a memory such as "sram=512k": its name, and its bytes, of which k, m and g are powers of 1024.

    Raises:
        DelegatecError: DC310, it has another form.
    """
    found = _MEMORY.fullmatch(text)
    if found is None:
        message, expected = f"{text!r} is not a memory", 'its name and size, such as "sram=512k"'
        raise DelegatecError([Diagnostic("DC310", message, expected=expected)])
    name, count, unit = found.groups()
    return Memory(name, int(count) * 1024 ** ("", "k", "m", "g").index(unit.lower()))
