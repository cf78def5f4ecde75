# SPDX-License-Identifier: Apache-2.0
"""Reader of VGF files (schemas/vgf.fbs): a graph as a SPIR-V module, its arguments, and its constants."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from delegatec_schemas import vgf as schema

from delegatec.backends.common.graph_format import GraphFormat, fill_absent
from delegatec.flatbuffer import unpack

_MAGIC: Final = b"VGF1"
_VERSION: Final = (0, 4)
# Magic, the headers of Vulkan, version; offset and size of modules, sequence, resources and constants.
_HEADER: Final = struct.Struct("<4s4xBBBB4x8Q")
_CONSTANTS: Final = struct.Struct("<8sQ")
_CONSTANT: Final = struct.Struct("<IiQQ")
_CONSTANTS_MAGIC: Final = b"CONST00\0"
FORMAT: Final = GraphFormat("VgfBackend", schema.ModuleTableT, b"")
"""For errors: the tables have no identifiers."""


@dataclass(frozen=True)
class Container:
    """A VGF file with one graph.

    Attributes:
        words: the SPIR-V module of the graph.
        inputs: index of each input's variable in the module, in order.
        outputs: the same, of outputs.
        shapes: that variable -> its shape in the table of resources. There, and not in the module, a tensor
            may have no dimensions.
        constants: the bytes of the constants, by their index in the module.
    """

    words: list[int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: dict[int, tuple[int, ...]]
    constants: tuple[memoryview, ...]


def read_container(data: memoryview) -> Container:
    """Reads an untrusted file. The bytes of constants are not copied.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    data = data.cast("B")
    if len(data) < _HEADER.size or bytes(data[:4]) != _MAGIC:
        raise FORMAT.damaged(f"it does not start with {_MAGIC!r}")
    _, major, minor, _, _, *ranges = _HEADER.unpack_from(data)
    if (major, minor) != _VERSION:
        raise FORMAT.damaged(f"its version is {major}.{minor}, not {'.'.join(map(str, _VERSION))}")
    sections = [_range(data, *ranges[at : at + 2]) for at in range(0, 8, 2)]
    modules, sequence, resources = (
        _table(kind, section)
        for kind, section in zip(
            (schema.ModuleTableT, schema.SequenceTableT, schema.ResourceTableT), sections, strict=False
        )
    )
    fill_absent(modules, "modules")
    fill_absent(sequence, "segments", "inputs", "outputs")
    fill_absent(resources, "mrtEntry")
    constants = _constants(sections[3])
    FORMAT.check(_problems(modules, sequence, len(resources.mrtEntry), len(constants)))
    (segment,) = sequence.segments
    return Container(
        modules.modules[segment.moduleIndex].code.words,
        tuple(each.binding for each in sequence.inputs),
        tuple(each.binding for each in sequence.outputs),
        {each.binding: _shape(resources, each.mrtIndex) for each in (*sequence.inputs, *sequence.outputs)},
        tuple(constants[index] for index in segment.constants),
    )


def _range(data: memoryview, start: int, size: int) -> memoryview:
    if start + size > len(data):
        raise FORMAT.damaged(f"a section of {size} bytes at {start} exceeds the {len(data)} bytes")
    return data[start : start + size]


def _table(kind: Any, section: memoryview) -> Any:
    try:
        return unpack(kind, section)
    except ValueError as error:
        raise FORMAT.damaged(f"a table points out of bounds ({error})") from error


def _constants(section: memoryview) -> list[memoryview]:
    if len(section) < _CONSTANTS.size:
        return []
    magic, count = _CONSTANTS.unpack_from(section)
    start = _CONSTANTS.size + count * _CONSTANT.size
    if magic != _CONSTANTS_MAGIC or start > len(section):
        raise FORMAT.damaged("its constants have no valid header")
    records = _CONSTANT.iter_unpack(section[_CONSTANTS.size : start])
    return [_range(section[start:], offset, size) for _, _, size, offset in records]


def _shape(resources: Any, index: int) -> tuple[int, ...]:
    description = resources.mrtEntry[index].description
    return () if description is None or description.shape is None else tuple(map(int, description.shape))


def _problems(modules: Any, sequence: Any, resources: int, constants: int) -> Iterator[str]:
    if len(sequence.segments) != 1:
        yield f"it has {len(sequence.segments)} segments, not one"
        return
    (segment,) = sequence.segments
    fill_absent(segment, "constants")
    if segment.moduleIndex >= len(modules.modules):
        yield f"it has no module {segment.moduleIndex}"
    else:
        module = modules.modules[segment.moduleIndex]
        if module.type != schema.ModuleType.GRAPH or not isinstance(module.code, schema.WordsT):
            yield f"module {segment.moduleIndex} is not a graph in SPIR-V"
        elif module.code.words is None:
            yield f"module {segment.moduleIndex} is empty"
    for index in segment.constants:
        if index >= constants:
            yield f"its segment uses constant {index} of {constants}"
    for each in (*sequence.inputs, *sequence.outputs):
        if each.mrtIndex >= resources:
            yield f"binding {each.binding} is resource {each.mrtIndex} of {resources}"
