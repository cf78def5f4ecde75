# SPDX-License-Identifier: Apache-2.0
"""Our reader reads every field that the peer serializes: all operations, and constants unchanged."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import typing
import warnings
from typing import Any

import numpy as np
import pytest

from delegatec.backends.mps.blob import Blob, read_blob, write_blob
from delegatec.backends.mps.graph import blob_graph
from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.delegation import format_blob_graph
from delegatec.delegation.protocol.parts import join

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from executorch.backends.apple.mps.serialization import mps_graph_schema as peer
    from executorch.backends.apple.mps.serialization.mps_graph_serialize import convert_to_flatbuffer

# The peer turns on debug output of everything when it is imported.
logging.getLogger().setLevel(logging.WARNING)

OPERATIONS = typing.get_args(peer.MPSNodeUnion)
VALUES = 12


def filled(operation: type) -> Any:
    """An operation with distinct values in its fields."""
    integers = itertools.count(2)
    given: dict[str, Any] = {}
    for field in dataclasses.fields(operation):
        kind = typing.get_type_hints(operation)[field.name]
        if field.name == "num_dims":
            given[field.name] = 2
        elif kind is bool:
            given[field.name] = next(integers) % 2 == 0
        elif kind is str:
            given[field.name] = f"mode {next(integers)}"
        elif kind is float:
            given[field.name] = next(integers) + 0.5
        elif kind is peer.MPSDataType:
            given[field.name] = peer.MPSDataType.mps_data_type_int8
        elif typing.get_origin(kind) is list:
            given[field.name] = [next(integers) % VALUES, next(integers) % VALUES]
        else:
            given[field.name] = next(integers) % VALUES
    return operation(**given)


def graph(operations: list[Any]) -> Any:
    """The peer's graph of operations on values of shape [2], of which value 1 is a constant stored inline."""
    float32 = peer.MPSDataType.mps_data_type_float32
    empty = peer.Buffer(b"")
    values = [peer.MPSTensor(float32, 1, [2], 0, empty) for _ in range(VALUES)]
    values[1] = peer.MPSTensor(float32, 1, [2], 8, peer.Buffer(np.array([3.0, -1.5], np.float32).tobytes()))
    return peer.MPSGraph(
        version="7",
        mps_nodes=[peer.MPSNode(operation, peer.MPSMinMax(-2.5, 3.5)) for operation in operations],
        mps_values=values,
        input_ids=[0],
        output_ids=[VALUES - 1],
        constant_ids=[1],
        graph_type=peer.OpType.mps_graph,
        constant_segment=peer.DataSegment(0, 0),
    )


def read(written: Any) -> Blob:
    return read_blob(memoryview(convert_to_flatbuffer(written)))


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


@pytest.fixture(scope="module")
def everything() -> tuple[list[Any], Blob]:
    operations = [filled(operation) for operation in OPERATIONS]
    return operations, read(graph(operations))


def test_every_field_of_every_operation(everything: tuple[list[Any], Blob]) -> None:
    operations, blob = everything
    assert len(blob.graph.mpsNodes) == len(operations) > 80
    for written, node in zip(operations, blob.graph.mpsNodes, strict=True):
        name = OPERATION_NAMES[node.mpsnodeUnionType]
        assert type(written).__name__.removeprefix("MPS").lower() == name.lower()
        fields = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(node.mpsnodeUnion).items()
        }
        for name, value in dataclasses.asdict(written).items():
            found = fields[camel(name)]
            assert (found.decode() if isinstance(found, bytes) else found) == value, (written, name)
        assert (node.minMax.minValue, node.minMax.maxValue) == (-2.5, 3.5)


def test_the_graph_and_a_constant_from_before_the_segment(everything: tuple[list[Any], Blob]) -> None:
    _, blob = everything
    assert (blob.graph.inputIds, blob.graph.outputIds, blob.graph.constantIds) == ([0], [VALUES - 1], [1])
    assert blob.graph.version == b"7"
    assert np.frombuffer(blob.constant(blob.graph.mpsValues[1]), np.float32).tolist() == [3.0, -1.5]


def test_the_text_names_every_operation(everything: tuple[list[Any], Blob]) -> None:
    _, blob = everything
    text = format_blob_graph(blob_graph(blob))
    assert "note: constants are stored in the FlatBuffer" in text
    for name in {OPERATION_NAMES[node.mpsnodeUnionType] for node in blob.graph.mpsNodes}:
        assert f"= {name}(" in text


def test_our_serialization_is_read_likewise(everything: tuple[list[Any], Blob]) -> None:
    _, blob = everything
    again = read_blob(memoryview(join(write_blob(blob.graph, [], checked=False))))
    assert format_blob_graph(blob_graph(again)) == format_blob_graph(blob_graph(blob))
