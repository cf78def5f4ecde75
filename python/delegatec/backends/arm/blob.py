# SPDX-License-Identifier: Apache-2.0
"""The blob of a TOSA delegate: a FlatBuffer (schemas/tosa_graph.fbs), whose constants follow its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from delegatec_schemas import tosa_graph as schema

from delegatec.backends.arm.building.graph_builder import MAIN, GraphBuilder
from delegatec.backends.arm.building.operation import Operation, Value, text
from delegatec.backends.arm.checks import fill_lists, problems_of
from delegatec.backends.common.graph_format import GraphFormat
from delegatec.backends.common.streamed_vectors import StreamedVectors
from delegatec.delegation import Part

_FORMAT: Final = GraphFormat(
    "TOSABackend", schema.GraphT, b"TOSA", fill_lists, lambda graph, _: problems_of(graph)
)
_CONSTANTS: Final = ("CONST", "CONST_SHAPE")


def write_blob(builder: GraphBuilder) -> list[Part]:
    """Returns the parts of a blob.

    Args:
        builder: the finished graph.

    Raises:
        DelegatecError: DC407, with the problems for which `read_blob` would refuse it.
    """
    vectors = StreamedVectors()
    regions = [schema.RegionT(name, [_block(name, each, vectors)]) for name, each in _regions(builder)]
    version = builder.settings.specification.version
    # Consumers read version 1.1 as a draft only.
    graph = schema.GraphT(schema.VersionT(*version, 0, version > (1, 0)), regions)
    _FORMAT.check_graph(graph)
    return vectors.pack(graph, _FORMAT.identifier)


def _regions(builder: GraphBuilder, name: str = MAIN) -> Iterator[tuple[str, GraphBuilder]]:
    """Yields the name and the graph of each region."""
    yield name, builder
    for each, body in builder.bodies.items():
        yield from _regions(body, each)


def _block(name: str, builder: GraphBuilder, vectors: StreamedVectors) -> schema.BlockT:
    block = schema.BlockT(name, [], [], [], [], [])
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
    return block


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
        bodies: name -> graph, for each region that an operation of this graph or of another body runs.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    constants: tuple[Value, ...]
    bodies: Mapping[str, Graph] = field(default_factory=dict)

    def walk(self) -> Iterator[Graph]:
        """Yields this graph and its bodies."""
        yield self
        yield from self.bodies.values()


def read_blob(data: memoryview) -> Graph:
    """Reads a blob and checks it (`checks.problems_of`). The bytes of constants are not copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    graph = _FORMAT.unpack(data.cast("B"))
    _FORMAT.check_graph(graph)
    main, *bodies = (_graph(region.blocks[0]) for region in graph.regions)
    names = [text(region.name) for region in graph.regions[1:]]
    return replace(main, bodies=dict(zip(names, bodies, strict=True)))


def _graph(block: schema.BlockT) -> Graph:
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
    return Value(text(tensor.name), tensor.type, tuple(tensor.shape), part, is_constant=part is not None)


def _shape(shape: schema.ShapeT) -> Value:
    data = b"" if shape.data is None else bytes(shape.data)
    elements = tuple(np.frombuffer(data, "<i8").tolist())
    return Value(text(shape.name), schema.DType.SHAPE, (shape.rank,), data, elements, True)
