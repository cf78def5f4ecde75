# SPDX-License-Identifier: Apache-2.0
"""Reading of damaged, old and handwritten blobs: either they read without an error, or DC407 is raised."""

from __future__ import annotations

from collections.abc import Callable

import flatbuffers
import numpy as np
import pytest
import torch
from delegatec_schemas import mps_graph as schema
from hypothesis import given
from hypothesis import strategies as st

from delegatec.backends.common.testing.damage import examples, other_lengths, wrong_words
from delegatec.backends.mps.blob import HEADER, MAGIC, read_blob, write_blob
from delegatec.backends.mps.checks import storage_size
from delegatec.backends.mps.graph import blob_graph
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.testing import compile_module
from delegatec.delegation import format_blob_graph
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError

WEIGHT = torch.arange(6.0).numpy().tobytes()


def graph() -> schema.GraphT:
    """A permuted input plus a constant of shape [2, 3]."""
    types = schema.DataType
    return schema.GraphT(
        version="0",
        mpsNodes=[
            schema.NodeT(
                schema.Operation.Permute, schema.PermuteT(input1Id=0, outputId=2, numDims=2, perm=[1, 0])
            ),
            schema.NodeT(
                schema.Operation.Add, schema.ScaledBinaryT(input1Id=2, input2Id=1, outputId=3, alpha=1.0)
            ),
        ],
        mpsValues=[
            schema.ValueT(types.FLOAT32, 2, [3, 2]),
            schema.ValueT(types.FLOAT32, 2, [2, 3], 24, None, 0),
            schema.ValueT(types.FLOAT32, 2, [2, 3]),
            schema.ValueT(types.FLOAT32, 2, [2, 3]),
        ],
        inputIds=[0],
        outputIds=[3],
        constantIds=[1],
        graphType=schema.GraphType.MPS_GRAPH,
        constantSegment=schema.SegmentT(),
    )


def packed(graph: schema.GraphT) -> bytes:
    return join(write_blob(graph, [WEIGHT], checked=False))


def message_of(data: bytes) -> str:
    with pytest.raises(DelegatecError) as error:
        read_blob(memoryview(data))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "DC407"
    return diagnostic.message


def run(data: bytes) -> torch.Tensor:
    (result,) = MpsReferenceExecutor(read_blob(memoryview(data)))([torch.ones(3, 2)])
    return result


def test_a_graph_made_by_hand_runs() -> None:
    assert torch.equal(run(packed(graph())), torch.arange(6.0).view(2, 3) + 1)


def _set(path: str, value: object) -> Callable[[schema.GraphT], None]:
    def edit(graph: schema.GraphT) -> None:
        *parts, last = path.split(".")
        owner: object = graph
        for part in parts:
            owner = owner[int(part)] if part.isdigit() else getattr(owner, part)  # type: ignore[index]
        setattr(owner, last, value)

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_set("graphType", 7), "unknown type of the graph: 7"),
        (_set("inputIds", [4]), "inputIds contains id 4, but there are 4 values"),
        (_set("outputIds", [-1]), "outputIds contains id -1, but there are 4 values"),
        (_set("constantIds", [0, 1]), "value 0 is both an input and a constant"),
        (_set("mpsValues.2.datatype", 18), "unknown type of value 2: 18"),
        (_set("mpsValues.2.datatype", schema.DataType.INVALID), "unknown type of value 2: 0"),
        (_set("mpsValues.0.numDims", 3), "value 0 has 2 dimensions, but specifies 3"),
        (_set("mpsValues.3.dims", [2, -3]), r"invalid shape of value 3: \[2, -3\]"),
        (_set("mpsNodes.0.mpsnodeUnion", None), "unknown operation of node 0"),
        (_set("mpsNodes.1.mpsnodeUnion.input2Id", 9), "node 1 uses id 9, but there are 4 values"),
        (_set("mpsNodes.0.mpsnodeUnion.perm", [0]), "node 0 has 1 elements in perm, but specifies 2"),
        (_set("mpsNodes.0.mpsnodeUnion.perm", None), "node 0 has 0 elements in perm, but specifies 2"),
        (_set("mpsValues.1.dims", [2, 4]), r"constant 1 of shape \[2, 4\] has 24 bytes, not 32"),
        (_set("mpsValues.1.datatype", 1), r"constant 1 of shape \[2, 3\] has 24 bytes, not 12"),
        (_set("mpsValues.1.constantBufferSize", 0), "constant 1 .* has 0 bytes, not 24"),
        (_set("mpsValues.1.segmentOffset", 16), r"constant 1 is \[16, 40\) of a segment of 32 bytes"),
        (_set("mpsValues.1.segmentOffset", 2**64 - 8), "constant 1 is .* of a segment of 32 bytes"),
    ],
)
def test_every_fault_is_named(edit: Callable[[schema.GraphT], None], message: str) -> None:
    damaged = graph()
    edit(damaged)
    assert_matches(message, message_of(packed(damaged)))


def assert_matches(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


def test_all_faults_are_in_one_message() -> None:
    damaged = graph()
    damaged.outputIds = [7]
    damaged.mpsValues[0].numDims = 1
    damaged.mpsNodes[1].mpsnodeUnion.input1Id = 5
    assert message_of(packed(damaged)).count("; ") == 2
    damaged.outputIds = list(range(4, 20))
    assert message_of(packed(damaged)).endswith("; and 10 more")


def with_two(first: tuple[int, int], second: tuple[int, int]) -> bytes:
    """Two int8 constants at [begin, end)."""
    made = graph()
    made.constantIds = [1, 2]
    for value, (begin, end) in zip(made.mpsValues[1:], (first, second), strict=False):
        value.datatype, value.dims, value.numDims = schema.DataType.INT8, [end - begin], 1
        value.constantBufferSize, value.segmentOffset = end - begin, begin
    return packed(made)


@pytest.mark.parametrize("second", [(8, 10), (0, 8), (20, 24)])
def test_constants_are_apart_or_the_same(second: tuple[int, int]) -> None:
    read_blob(memoryview(with_two((0, 8), second)))


@pytest.mark.parametrize(("second", "at"), [((4, 12), 4), ((7, 8), 7), ((0, 9), 0)])
def test_constants_that_overlap(second: tuple[int, int], at: int) -> None:
    assert message_of(with_two((0, 8), second)).endswith(f"overlap at {at}")


def test_four_bits_are_half_a_byte() -> None:
    assert storage_size(schema.DataType.INT4, [3, 5]) == 8
    made = graph()
    made.mpsValues[1].datatype, made.mpsValues[1].dims = schema.DataType.INT4, [6, 8]
    data = packed(made)
    blob = read_blob(memoryview(data))
    assert bytes(blob.constant(blob.graph.mpsValues[1])) == WEIGHT
    made.mpsValues[1].dims = [6, 9]
    assert message_of(packed(made)).endswith("has 24 bytes, not 27")


def inline(graph: schema.GraphT) -> schema.GraphT:
    value = graph.mpsValues[1]
    value.constantBuffer = schema.InlineDataT(np.frombuffer(WEIGHT, np.uint8))
    return graph


def test_constants_of_blobs_from_before_the_segment() -> None:
    builder = flatbuffers.Builder(0)
    builder.Finish(inline(graph()).Pack(builder), file_identifier=MAGIC)
    data = bytes(builder.Output())
    blob = read_blob(memoryview(data))
    found = blob.constant(blob.graph.mpsValues[1])
    assert bytes(found) == WEIGHT
    with pytest.raises(DelegatecError, match="constant 1 is stored in the FlatBuffer"):
        run(data)  # as the runtime of 1.4 would look for it elsewhere
    assert np.shares_memory(np.frombuffer(found, np.uint8), np.frombuffer(data, np.uint8))


def test_constants_inside_of_the_flatbuffer_with_a_header() -> None:
    blob = read_blob(memoryview(join(write_blob(inline(graph()), [], checked=False))))
    assert bytes(blob.constant(blob.graph.mpsValues[1])) == WEIGHT
    damaged = inline(graph())
    damaged.mpsValues[1].constantBuffer.storage = np.zeros(8, np.uint8)
    assert message_of(packed(damaged)).endswith("constant 1 has 8 inline bytes, but specifies 24")


def test_nothing_is_copied() -> None:
    data = packed(graph())
    blob = read_blob(memoryview(data))
    assert np.shares_memory(np.frombuffer(blob.constants, np.uint8), np.frombuffer(data, np.uint8))


def test_a_segment_that_is_not_aligned() -> None:
    data = packed(graph())
    _, offset, size = HEADER.unpack_from(data)
    moved = HEADER.pack(MAGIC, offset + 4, size) + data[HEADER.size :] + bytes(4)
    assert message_of(moved).endswith(f"begins at {offset + 4}, which is not a multiple of 16")


def test_a_vector_that_many_share_is_not_unfolded() -> None:
    """A thousand values whose dimensions are one vector of a thousand integers: not a million integers."""
    builder = flatbuffers.Builder(0)
    dims = builder.CreateNumpyVector(np.ones(1000, np.int32))
    values = []
    for _ in range(1000):
        schema.ValueStart(builder)
        schema.ValueAddDatatype(builder, schema.DataType.FLOAT32)
        schema.ValueAddNumDims(builder, 1000)
        schema.ValueAddDims(builder, dims)
        values.append(schema.ValueEnd(builder))
    schema.GraphStartMpsValuesVector(builder, len(values))
    for value in values:
        builder.PrependUOffsetTRelative(value)
    vector = builder.EndVector()
    schema.GraphStart(builder)
    schema.GraphAddMpsValues(builder, vector)
    builder.Finish(schema.GraphEnd(builder), file_identifier=MAGIC)
    assert "more elements than the file can contain" in message_of(bytes(builder.Output()))


class Net(torch.nn.Module):
    """Operations with vectors, strings, bounds, several results and constants."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(1, 2, 3)
        self.norm = torch.nn.LayerNorm(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.conv(x).split([1, 1], 1)
        y = torch.nn.functional.gelu(self.norm(a)).permute(0, 1, 3, 2)
        return torch.cat([y, b.clamp(min=0.0)], 1).mean([2, 3]) * 3.0


GOOD = compile_module(Net(), (torch.randn(1, 1, 5, 5),)).blobs()[0]
END = HEADER.unpack_from(GOOD)[1]


def read(data: bytes) -> None:
    """Reads a blob whose contents are in bounds and renders it as text, or raises DC407."""
    try:
        blob = read_blob(memoryview(data))
    except DelegatecError as error:
        assert [diagnostic.code for diagnostic in error.diagnostics] == ["DC407"]
        return
    values = [blob.graph.mpsValues[id] for id in blob.graph.constantIds]
    assert all(len(blob.constant(value)) == value.constantBufferSize > 0 for value in values)
    assert format_blob_graph(blob_graph(blob)).count("\n") >= len(blob.graph.mpsNodes)


@examples(700)
@given(wrong_words(GOOD, END))
def test_any_words_may_be_wrong(data: bytes) -> None:
    read(data)


@examples(300)
@given(other_lengths(GOOD))
def test_bytes_may_be_missing_or_too_many(data: bytes) -> None:
    read(data)


@examples(200)
@given(st.binary(max_size=400))
def test_any_bytes(rest: bytes) -> None:
    read(bytes(4) + MAGIC + rest)
    read(rest[:4] + MAGIC + rest[4:])
