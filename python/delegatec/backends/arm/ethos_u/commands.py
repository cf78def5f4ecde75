# SPDX-License-Identifier: Apache-2.0
"""Commands of an NPU in the payload of its driver ("COP1").

The payload is a list of actions of the driver; one of them contains the commands. A command has one word,
with a 16-bit integer, or two words, with a 32-bit integer.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_FOURCC: Final = b"COP1"
_CONFIG: Final = 1
_STREAM: Final = 2
_NOP: Final = 5
_LONG: Final = 1 << 14

OPERATIONS: Final[Mapping[int, str]] = {
    0x000: "STOP",
    0x001: "IRQ",
    0x002: "CONV",
    0x003: "DEPTHWISE",
    0x005: "POOL",
    0x006: "ELEMENTWISE",
    0x007: "RESIZE",
    0x010: "DMA_START",
    0x011: "DMA_WAIT",
    0x012: "KERNEL_WAIT",
    0x013: "PMU_MASK",
}
"""Code of a short command -> its name, without those that set a register."""


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        code: 10 bits.
        parameter: 16 bits.
        payload: 32 bits of a long command; None for a short one.
    """

    code: int
    parameter: int
    payload: int | None = None

    @property
    def operation(self) -> str:
        """The name of an operation; empty for a command that sets a register."""
        return OPERATIONS.get(self.code, "") if self.payload is None else ""


@dataclass(frozen=True)
class Stream:
    """The commands of a payload.

    Attributes:
        macs: multiply-accumulate operations per cycle of the NPU that they are for.
        commands: in order.
    """

    macs: int
    commands: tuple[Command, ...]

    def counts(self) -> Mapping[str, int]:
        """Returns how often each operation occurs, in order of their codes."""
        found = Counter(each.operation for each in self.commands if each.operation)
        return {name: found[name] for name in OPERATIONS.values() if name in found}


def read_commands(payload: memoryview) -> Stream:
    """Reads the payload of a driver.

    Raises:
        ValueError: with the problem.
    """
    if bytes(payload[:4]) != _FOURCC or len(payload) % 4:
        raise ValueError(
            f"{len(payload)} bytes that start with {bytes(payload[:4])!r} are not a payload of COP1"
        )
    words = struct.unpack(f"<{len(payload) // 4 - 1}I", payload[4:])
    macs, position, commands = 0, 0, None
    while position < len(words):
        action, length = words[position] & 0xFF, words[position] >> 16
        position += 1
        if action == _CONFIG and position + 2 <= len(words):
            macs = 1 << (words[position] & 0xF)
            position += 2
        elif action == _STREAM:
            length |= (words[position - 1] >> 8 & 0xFF) << 16
            if position + length > len(words) or commands is not None:
                raise ValueError(f"{length} words of commands at word {position} of {len(words)}")
            commands = tuple(_commands(words[position : position + length]))
            position += length
        elif action != _NOP:
            raise ValueError(f"unknown action {action} at word {position - 1}")
    if commands is None:
        raise ValueError("it has no commands")
    return Stream(macs, commands)


def _commands(words: Sequence[int]) -> Iterator[Command]:
    rest = iter(words)
    for word in rest:
        code, parameter = word & 0x3FF, word >> 16
        payload = next(rest, None) if word & _LONG else None
        if word & _LONG and payload is None:
            raise ValueError("the last command has no second word")
        yield Command(code, parameter, payload)
