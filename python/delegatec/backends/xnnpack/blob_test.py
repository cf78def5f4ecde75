# SPDX-License-Identifier: Apache-2.0
"""The blob: its header, its bytes, and flatc as a second reader."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.testing.flatc import faults, to_json
from delegatec.backends.xnnpack.blob import read_blob, write_blob
from delegatec.backends.xnnpack.operands import OPERATION_NAMES
from delegatec.backends.xnnpack.testing.reference.table import CASES
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.delegation.protocol.parts import join

GRAPH = schema.GraphT(
    version="0",
    nodes=[schema.NodeT(schema.Operation.Negate, schema.UnaryT(0, 1, 0), 5)],
    values=[
        schema.ValueT(
            schema.Content.Tensor, schema.TensorT(schema.DataType.FLOAT32, 1, [3], 0, id, 1 + id, id)
        )
        for id in range(2)
    ],
    numExternals=2,
    constants=[schema.BytesT(0, 0)],
)
BLOB = join(write_blob(GRAPH, checked=False))


def test_the_header() -> None:
    magic, header, offset, size, bytes_offset, bytes_size = struct.unpack_from("<4x4sHIIIQ", BLOB)
    assert (magic, header, offset, bytes_size) == (b"XH00", 30, 32, 0)
    assert BLOB[offset + 4 : offset + 8] == b"XN01"
    assert offset + size <= bytes_offset == len(BLOB)
    assert bytes_offset % 16 == 0


def test_flatc_reads_the_same(tmp_path: Path) -> None:
    size = struct.unpack_from("<I", BLOB, 14)[0]
    flatbuffer = BLOB[32 : 32 + size]
    assert faults("xnnpack_graph.fbs", flatbuffer, tmp_path) == []
    assert faults("xnnpack_graph.fbs", flatbuffer[: size // 2], tmp_path) != []
    read = to_json("xnnpack_graph.fbs", flatbuffer, tmp_path)
    assert [node["operation_type"] for node in read["nodes"]] == ["Negate"]
    assert read["nodes"][0]["operation"] == {"output_id": 1}
    assert [value["content"]["flags"] for value in read["values"]] == [1, 2]


def test_the_bytes() -> None:
    """The bytes of a blob that the stock runtime has run; the writer changes only deliberately."""
    table = BLOB[32:]
    assert table[4:8] == b"XN01" and len(BLOB) == 320
    assert (
        hashlib.sha256(BLOB).hexdigest() == "e2e1646ce4886ec49ac5aac008670f055629c7d03f902f461eecbd0cf8e541c7"
    )


def test_flatc_reads_every_operation_the_same(tmp_path: Path) -> None:
    for case in {case.operation: case for case in CASES}.values():
        blob = case.blob().data()
        flatbuffer = blob[32 : 32 + struct.unpack_from("<I", blob, 14)[0]]
        assert faults("xnnpack_graph.fbs", flatbuffer, tmp_path) == []
        read = to_json("xnnpack_graph.fbs", flatbuffer, tmp_path)
        ours = read_blob(memoryview(blob)).graph
        names = [OPERATION_NAMES[node.operationType] for node in ours.nodes]
        assert [node["operation_type"] for node in read["nodes"]] == names
        ids = [value["content"].get("tensor", value["content"])["id"] for value in read["values"]]
        assert ids == [tensor_of(value).id for value in ours.values]
        keys = [each.get("key") for each in read["constants"]]
        assert keys == [each.key and each.key.decode() for each in ours.constants]
