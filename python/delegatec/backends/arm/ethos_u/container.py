# SPDX-License-Identifier: Apache-2.0
"""The container of a command stream: blocks of bytes with names, as ExecuTorch's Ethos-U runtime reads them.

Source: `VelaBinStream.cpp` of ExecuTorch 1.4.1. Each block has a header of 32 bytes, its name and the length
of its data, and is padded to 16 bytes. The runtime checks little, so `read_container` checks everything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from delegatec.diagnostics import DelegatecError, Diagnostic

_NAME: Final = 16
_HEADER: Final = 32
_PORT: Final = struct.Struct("<9i")
_BLOCKS: Final = (
    "vela_bin_stream",
    "cmd_data",
    "weight_data",
    "scratch_size",
    "inputs",
    "outputs",
    "vela_end_stream",
)
_EMPTY: Final = (_BLOCKS[0], _BLOCKS[-1])
_ELEMENT_SIZES: Final = (1, 2, 4, 8)
_RANK: Final = 6


@dataclass(frozen=True)
class Port:
    """An input or an output of a command stream.

    Attributes:
        shape: six sizes, the leading ones 1.
        element_size: in bytes.
        offset: in its region, in bytes.
        region: index of a base address.
    """

    shape: tuple[int, ...]
    element_size: int
    offset: int
    region: int

    @property
    def size(self) -> int:
        """Size in bytes."""
        size = self.element_size
        for each in self.shape:
            size *= each
        return size


@dataclass(frozen=True)
class Compiled:
    """The result of Vela.

    Attributes:
        commands: the command stream that the driver runs.
        weights: compressed weights and scales.
        scratch: bytes of memory for the run, inputs and outputs included.
        inputs: in order.
        outputs: in order.
    """

    commands: memoryview
    weights: memoryview
    scratch: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def write_container(compiled: Compiled) -> bytes:
    """Returns the container of a command stream."""
    data: tuple[bytes | memoryview, ...] = (
        b"",
        compiled.commands,
        compiled.weights,
        struct.pack("<I", compiled.scratch),
        _ports(compiled.inputs),
        _ports(compiled.outputs),
        b"",
    )
    blocks = bytearray()
    for name, each in zip(_BLOCKS, data, strict=True):
        blocks += struct.pack("<16si12x", name.encode(), len(each))
        blocks += each
        blocks += bytes(-len(each) % _NAME)
    return bytes(blocks)


def _ports(ports: Sequence[Port]) -> bytes:
    packed = (_PORT.pack(*each.shape, each.element_size, each.offset, each.region) for each in ports)
    return struct.pack("<i", len(ports)) + b"".join(packed)


def read_container(blob: memoryview) -> Compiled:
    """Reads a container. The bytes of commands and weights are not copied.

    Raises:
        DelegatecError: DC407, the first problem.
    """
    found = dict(_blocks(blob.cast("B")))
    if len(found["scratch_size"]) != 4:
        damaged(f"scratch_size has {len(found['scratch_size'])} bytes")
    (scratch,) = struct.unpack("<I", found["scratch_size"])
    compiled = Compiled(
        found["cmd_data"],
        found["weight_data"],
        scratch,
        tuple(_read_ports("inputs", found["inputs"])),
        tuple(_read_ports("outputs", found["outputs"])),
    )
    for what, ports in (("input", compiled.inputs), ("output", compiled.outputs)):
        for index, port in enumerate(ports):
            if port.offset + port.size > scratch:
                damaged(f"{what} {index} ends at {port.offset + port.size}, beyond {scratch} bytes of memory")
    return compiled


def _blocks(blob: memoryview) -> Iterator[tuple[str, memoryview]]:
    position = 0
    for name in _BLOCKS:
        header = bytes(blob[position : position + _HEADER])
        if len(header) < _HEADER:
            damaged(f"it ends before its block {name}")
        if header[:_NAME] != name.encode().ljust(_NAME, b"\0"):
            damaged(f"block {header[:_NAME].rstrip(bytes(1))!r} instead of {name}")
        (length,) = struct.unpack_from("<i", header, _NAME)
        if any(header[_NAME + 4 :]):
            damaged(f"block {name} refers to data outside of the delegate")
        position += _HEADER
        if not 0 <= length <= len(blob) - position or (length and name in _EMPTY):
            damaged(f"block {name} has {length} bytes, with {len(blob) - position} left")
        yield name, blob[position : position + length]
        position += length + -length % _NAME
    if position != len(blob):
        damaged(f"{len(blob)} bytes instead of {position}")


def _read_ports(what: str, data: memoryview) -> Iterator[Port]:
    if len(data) < 4 or (len(data) - 4) % _PORT.size:
        damaged(f"{what} has {len(data)} bytes")
    (count,) = struct.unpack_from("<i", data)
    if count != (len(data) - 4) // _PORT.size:
        damaged(f"{what} has {count} entries in {len(data)} bytes")
    for index in range(count):
        *shape, size, offset, region = _PORT.unpack_from(data, 4 + index * _PORT.size)
        if min(shape) < 1 or size not in _ELEMENT_SIZES or offset < 0 or region < 0:
            damaged(f"entry {index} of {what} is invalid: {[*shape, size, offset, region]}")
        yield Port(tuple(shape), size, offset, region)


def damaged(problem: str) -> NoReturn:
    """Raises DC407 for a blob."""
    message = f"damaged blob of EthosUBackend: {problem}"
    raise DelegatecError([Diagnostic("DC407", message, expected="a container of an Ethos-U command stream")])
