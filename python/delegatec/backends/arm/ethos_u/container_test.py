# SPDX-License-Identifier: Apache-2.0
"""The container of a command stream: written, read, and damaged."""

from __future__ import annotations

import struct

import pytest

from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.ethos_u.container import Compiled, Port, read_container, write_container
from delegatec.delegation import DelegateMemory
from delegatec.diagnostics import DelegatecError

_COMPILED = Compiled(
    memoryview(b"COP1" + bytes(17)),
    memoryview(b"w"),
    4096,
    (Port((1, 1, 1, 4, 5, 6), 1, 0, 1), Port((1, 1, 1, 1, 1, 8), 4, 128, 1)),
    (Port((1, 1, 1, 1, 2, 3), 2, 4084, 1),),
)
_BLOB = write_container(_COMPILED)


def _rejected(blob: bytes) -> str:
    with pytest.raises(DelegatecError) as raised:
        read_container(memoryview(blob))
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "DC407"
    return diagnostic.message.removeprefix("damaged blob of EthosUBackend: ")


def test_blocks_have_headers_and_are_padded() -> None:
    assert len(_BLOB) == 7 * 32 + 32 + 16 + 16 + 80 + 48
    assert _BLOB[:36] == b"vela_bin_stream\0" + bytes(16) + b"cmd_"
    assert _BLOB[32:68] == b"cmd_data".ljust(16, b"\0") + struct.pack("<i12x", 21) + b"COP1"
    outputs = b"outputs".ljust(16, b"\0") + struct.pack("<i12x", 40)
    assert outputs + struct.pack("<i9i", 1, 1, 1, 1, 1, 2, 3, 2, 4084, 1) in _BLOB
    assert _BLOB.endswith(b"vela_end_stream\0" + bytes(16))


def test_a_container_is_read_as_it_was_written() -> None:
    read = read_container(memoryview(_BLOB))
    assert read == _COMPILED
    assert read.inputs[1].size == 32
    assert write_container(read) == _BLOB


@pytest.mark.parametrize("length", range(0, len(_BLOB), 16))
def test_a_part_of_a_container_is_rejected(length: int) -> None:
    assert _rejected(_BLOB[:length])


def test_each_byte_of_a_header_is_checked() -> None:
    for position in range(32):
        changed = bytearray(_BLOB)
        changed[position] ^= 1
        assert _rejected(bytes(changed))


def _ported(port: Port, scratch: int = 4096) -> bytes:
    compiled = Compiled(_COMPILED.commands, _COMPILED.weights, scratch, (port,), ())
    return write_container(compiled)


def test_what_is_damaged_is_named() -> None:
    shape = (1, 1, 1, 4, 5, 6)
    assert _rejected(_BLOB + bytes(16)) == f"{len(_BLOB) + 16} bytes instead of {len(_BLOB)}"
    assert _rejected(_ported(Port(shape, 4, 0, 1), 479)) == "input 0 ends at 480, beyond 479 bytes of memory"
    assert "entry 0 of inputs is invalid" in _rejected(_ported(Port((0, 1, 1, 4, 5, 6), 4, 0, 1)))
    assert "entry 0 of inputs is invalid" in _rejected(_ported(Port(shape, 3, 0, 1)))
    assert "entry 0 of inputs is invalid" in _rejected(_ported(Port(shape, 4, -16, 1)))
    outside = bytearray(_BLOB)
    outside[32 + 20] = 1
    assert _rejected(bytes(outside)) == "block cmd_data refers to data outside of the delegate"
    counted = bytearray(_BLOB)
    counted[_BLOB.index(b"inputs") + 32] = 3
    assert _rejected(bytes(counted)) == "inputs has 3 entries in 76 bytes"
    renamed = _BLOB.replace(b"weight_data", b"weight_dat\0")
    assert _rejected(renamed) == "block b'weight_dat' instead of weight_data"


def test_memory_of_a_run() -> None:
    """It is taken of the temporary allocator; a damaged container tells nothing."""
    assert ETHOS_U.memory(memoryview(_BLOB)) == DelegateMemory(temporary=_COMPILED.scratch)
    with pytest.raises(DelegatecError, match="DC407"):
        ETHOS_U.memory(memoryview(_BLOB[:-4]))
