# SPDX-License-Identifier: Apache-2.0
"""Commands in the payload of the driver."""

from __future__ import annotations

import struct

import pytest

from delegatec.backends.arm.ethos_u.commands import Command, read_commands
from delegatec.backends.arm.ethos_u.container import Compiled, Port
from delegatec.backends.arm.ethos_u.description import describe

_CONV, _SET_REGION, _SET_BASE, _STOP = 2, 0x10F, 0x4000, 0xFFFF0000
_COMMANDS = (0x0001_0000 | _SET_REGION, _SET_BASE, 0x1234, _CONV, _CONV, _STOP)


def _payload(*words: int) -> memoryview:
    return memoryview(b"COP1" + struct.pack(f"<{len(words)}I", *words))


_PAYLOAD = _payload(1, 0x7, 0, 5, 5, (len(_COMMANDS) << 16) | 2, *_COMMANDS)


def test_commands_are_read() -> None:
    stream = read_commands(_PAYLOAD)
    assert stream.macs == 128
    assert stream.commands == (
        Command(_SET_REGION, 1),
        Command(0, 0, 0x1234),
        Command(_CONV, 0),
        Command(_CONV, 0),
        Command(0, 0xFFFF),
    )
    assert stream.counts() == {"STOP": 1, "CONV": 2}


def test_a_command_stream_is_described() -> None:
    port = Port((1, 1, 1, 1, 1, 8), 1, 16, 1)
    compiled = Compiled(_PAYLOAD, memoryview(b"weights"), 64, (port,), (port,))
    assert describe(compiled).splitlines() == [
        "Ethos-U command stream for 128 MACs per cycle",
        "  commands: 5, 52 bytes",
        "  weights: 7 bytes, compressed",
        "  memory of a run: 64 bytes",
        "  input 0: [8] of 8 bits, 8 bytes at 16 in region 1",
        "  output 0: [8] of 8 bits, 8 bytes at 16 in region 1",
        "  operations: 1 STOP, 2 CONV",
    ]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (memoryview(b"COP2" + bytes(8)), "not a payload of COP1"),
        (memoryview(b"COP1" + bytes(3)), "not a payload of COP1"),
        (_payload(9), "unknown action 9 at word 0"),
        (_payload(5), "it has no commands"),
        (_payload((3 << 16) | 2, 0), "3 words of commands at word 1 of 2"),
        (_payload((1 << 16) | 2, 0x4000), "the last command has no second word"),
    ],
)
def test_damaged_payloads_are_rejected(payload: memoryview, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_commands(payload)
