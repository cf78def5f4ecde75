# SPDX-License-Identifier: Apache-2.0
"""The blob of a TOSA delegate: a FlatBuffer (schemas/tosa_graph.fbs), whose constants follow its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from delegatec_schemas import tosa_graph as schema

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.checks import fill_lists, problems_of
from delegatec.backends.common.graph_format import GraphFormat
from delegatec.backends.common.streamed_vectors import StreamedVectors
from delegatec.delegation import Part

_FORMAT: Final = GraphFormat("TOSABackend", schema.GraphT, b"TOSA")
_MAIN: Final = "main"
"""The name of the region and of the block that tools run."""
_CONSTANTS: Final = ("CONST", "CONST_SHAPE")


def write_blob(builder: GraphBuilder) -> list[Part]:
    """Returns the parts of a blob.

    Args:
        builder: the finished graph.
    """
    vectors = StreamedVectors()
    block = schema.BlockT(_MAIN, [], [], [], [], [])
    for value in _values(builder):
        if value.is_shape:
            assert value.part is not None
            data = vectors.add(value.part)
            block.shapes.append(schema.ShapeT(value.name, value.shape[0], data))
            block.operators.append(Operation("CONST_SHAPE", (), (value,), {}).packed())
            continue
        tensor = schema.TensorT(value.name, list(value.shape), value.dtype)
        if value.part is not None:
            tensor.data = vectors.add(value.part)
            block.operators.append(Operation("CONST", (), (value,), {}).packed())
        block.tensors.append(tensor)
    block.operators += [each.packed() for each in builder.operations]
    block.inputs = [value.name for value in builder.inputs]
    block.outputs = [value.name for value in builder.outputs]
    version = builder.settings.specification.version
    # Consumers read version 1.1 as a draft only.
    graph = schema.GraphT(schema.VersionT(*version, 0, version > (1, 0)), [schema.RegionT(_MAIN, [block])])
    return vectors.pack(graph, _FORMAT.identifier)


def _values(builder: GraphBuilder) -> Iterable[Value]:
    def used() -> Iterator[Value]:
        yield from builder.inputs
        for operation in builder.operations:
            yield from operation.inputs
            yield from operation.outputs

    return dict.fromkeys(used())


@dataclass(frozen=True)
class Graph:
    """The graph of a blob.

    Attributes:
        inputs: in order.
        outputs: in order.
        operations: in order, without constants.
        constants: tensors and shapes, with their bytes.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    constants: tuple[Value, ...]


def read_blob(data: memoryview) -> Graph:
    """Reads a blob and checks it (`checks.problems_of`). The bytes of constants are not copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    graph = _FORMAT.unpack(data.cast("B"))
    fill_lists(graph)
    _FORMAT.check(problems_of(graph))
    block = graph.regions[0].blocks[0]
    values = {each.name: _tensor(each) for each in block.tensors}
    values.update({each.name: _shape(each) for each in block.shapes})
    inputs, outputs = (tuple(values[name] for name in names) for names in (block.inputs, block.outputs))
    operations = [Operation.unpacked(each, values) for each in block.operators]
    return Graph(
        inputs,
        outputs,
        tuple(each for each in operations if each.inputs or each.name not in _CONSTANTS),
        tuple(value for value in values.values() if value.is_constant),
    )


def _tensor(tensor: schema.TensorT) -> Value:
    part = None if tensor.data is None else memoryview(tensor.data)
    return Value(_text(tensor.name), tensor.type, tuple(tensor.shape), part, is_constant=part is not None)


def _shape(shape: schema.ShapeT) -> Value:
    data = b"" if shape.data is None else bytes(shape.data)
    numbers = tuple(np.frombuffer(data, "<i8").tolist())
    return Value(_text(shape.name), schema.DType.SHAPE, (shape.rank,), data, numbers, True)


def _text(name: bytes) -> str:
    # Another encoding is not worth an error, and distinct names stay distinct.
    return name.decode("utf-8", "surrogateescape")
