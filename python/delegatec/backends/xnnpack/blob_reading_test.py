# SPDX-License-Identifier: Apache-2.0
"""Reading of damaged or wrong blobs: either they read without an error, or DC407 is raised."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

import pytest
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType

from delegatec.backends.xnnpack.blob import read_blob, write_blob
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.reference.testing import network
from delegatec.backends.xnnpack.testing.reference.cases import Case, In, K, Out, random
from delegatec.backends.xnnpack.values import quantization_of, tensor_of
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError

Edit = Callable[[Any], object]


GOOD: Final = network().data()


def graph_of(data: bytes = GOOD) -> Any:
    return read_blob(memoryview(data)).graph


def message_of(data: bytes) -> str:
    with pytest.raises(DelegatecError) as error:
        read_blob(memoryview(data))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "DC407"
    return diagnostic.message


def value(graph: Any, id: int) -> Any:
    return next(each for each in graph.values if tensor_of(each).id == id)


def tensor(number: int, **fields: Any) -> Edit:
    """Returns an edit of a tensor's fields."""

    def edit(graph: Any) -> None:
        for name, content in fields.items():
            setattr(tensor_of(value(graph, number)), name, content)

    return edit


def scales(id: int, **fields: Any) -> Edit:
    """Returns an edit of a quantization's fields."""

    def edit(graph: Any) -> None:
        for name, content in fields.items():
            setattr(quantization_of(value(graph, id))[1], name, content)

    return edit


def operation(index: int, **fields: Any) -> Edit:
    """Returns an edit of an operation's fields."""

    def edit(graph: Any) -> None:
        for name, content in fields.items():
            setattr(graph.nodes[index].operation, name, content)

    return edit


def constant(index: int, **fields: Any) -> Edit:
    """Returns an edit of a constant's fields."""

    def edit(graph: Any) -> None:
        for name, content in fields.items():
            setattr(graph.constants[index], name, content)

    return edit


def limits(least: float, most: float) -> Edit:
    return lambda graph: setattr(graph.nodes[0], "limits", schema.LimitsT(least, most))


def swapped(graph: Any) -> None:
    graph.nodes[0], graph.nodes[1] = graph.nodes[1], graph.nodes[0]


def without_quantization(graph: Any) -> None:
    value(graph, 13).content.quantizationType = 0
    value(graph, 13).content.quantization = None


FAULTS: Final[list[tuple[Edit, str]]] = [
    # ids
    (lambda g: setattr(g, "numExternals", 5000), "it has 5000 external values, more than 4096"),
    (lambda g: setattr(g, "numExternals", 3), "value 20 has the external id 3, but there are 3"),
    (tensor(13, id=14), "value 4 has the id 14, which is not its own"),
    (tensor(13, id=NO_VALUE), "value 3 has the id 4294967295, which is not its own"),
    (tensor(15, externalId=0), "2 values have the external id 0"),
    (tensor(15, externalId=NO_VALUE), "value 15 has the flags 2 and the external id 4294967295"),
    (tensor(13, externalId=1), "value 13 has the flags 0 and the external id 1"),
    (tensor(10, flags=3), "value 10 has the flags 3"),
    (tensor(10, flags=4), "value 10 has the flags 4"),
    (tensor(19, flags=1, externalId=1), "value 19 is a constant, and an input or output"),
    (operation(1, inputId=99), "node 1 (Transpose) uses id 99, which no value has"),
    (operation(5 - 1, filterId=NO_VALUE), "node 4 (FullyConnected) uses id 4294967295, which no value has"),
    (operation(2, outputId=77), "node 2 (Add) uses id 77, which no value has"),
    # order
    (swapped, "node 0 (Transpose) uses value 13 before it is computed"),
    (operation(1, inputId=14), "node 1 (Transpose) uses value 14 before it is computed"),
    (operation(1, outputId=13), "node 1 (Transpose) writes value 13, which has elements already"),
    (operation(1, outputId=10), "node 1 (Transpose) writes value 10, which has elements already"),
    (lambda g: g.nodes.pop(2), "output 15 is not computed"),
    # types and scales
    (tensor(18, dataType=44), "unknown type of value 18: 44"),
    (tensor(18, dataType=DataType.PACKED_FLOAT32), "unknown type of value 18: PACKED_FLOAT32"),
    (tensor(13, dataType=DataType.FLOAT32), "value 13 is FLOAT32, which its quantization cannot be"),
    (without_quantization, "unknown type of value 13: INT8"),
    (tensor(11, dynamicDataType=DataType.INT8), "value 11 is dynamically quantized in an old form"),
    (tensor(18, dims=[1] * 7), "value 18 has 7 dimensions, more than 6"),
    (scales(13, zeroPoint=128), "value 13 has the zero point 128, not one of [-128, 127]"),
    (scales(13, scale=0.0), "value 13 has the scale 0"),
    (scales(13, scale=math.nan), "value 13 has the scale nan"),
    (scales(13, scale=math.inf), "value 13 has the scale inf"),
    (scales(13, scale=1e-39), "value 13 has the scale 1e-39"),
    (scales(12, scales=[1.0] * 3), "value 12 has 3 scales instead of 4"),
    (scales(12, scales=[1.0, -1.0, 1.0, 1.0]), "value 12 has the scale -1"),
    (scales(12, scales=None, scalesConstantId=2), "value 12 has no list of scales, not even an empty one"),
    (scales(12, scales=[], scalesConstantId=77), "the scales of value 12 is constant 77, but there are 4"),
    (scales(12, channelDim=4), "value 12 has the channel dimension 4 of 4"),
    (scales(12, channelDim=-1), "value 12 has the channel dimension -1 of 4"),
    (scales(12, channelDim=3), "has a filter or bias with the channel dimension 3 instead of 0"),
    (scales(16, numRowDims=3), "rows of value 16 have 3 of its 2 dimensions"),
    (scales(16, numRowDims=2), "node 4 (FullyConnected) reads rows of 2 dimensions instead of 1"),
    (scales(17, groupSize=0), "value 17 has 64 inputs in groups of 0"),
    (scales(17, groupSize=48), "value 17 has 64 inputs in groups of 48"),
    (scales(17, groupSize=16), "value 17 has 16 scales instead of 32"),
    (scales(17, channelDim=1), "value 17 has 2 dimensions and the channel dimension 1"),
    # constants
    (tensor(19, constantId=9), "value 19 is constant 9, but there are 4"),
    (constant(3, size=31), "constant 3 has 31 bytes, and value 19 has 32"),
    (constant(3, key=None), "constant 3 has the offset 18446744073709551615, and no key"),
    (constant(3, offset=0), "constant 3 has the offset 0, and a key"),
    (constant(1, offset=64), "constant 1 is [64, 136) of 80 bytes"),
    (constant(1, offset=2**64 - 8), "constant 1 is [18446744073709551608, 18446744073709551680) of 80 bytes"),
    (operation(2, input2Id=12), "node 2 (Add) reads constant 12, which is a filter or bias; it must be"),
    (operation(4, biasId=19), "node 5 (Prelu) reads constant 19, which is a filter or bias; it must be"),
    (operation(4, inputId=17), "node 4 (FullyConnected) reads constant 17, which is a filter or bias"),
    # nodes
    (lambda g: setattr(g.nodes[0], "operation", None), "unknown operation of node 0: type 7"),
    (limits(1.0, 0.0), "node 0 (Convolution) has the limits 1 and 0"),
    (limits(math.nan, 0.0), "node 0 (Convolution) has the limits nan and 0"),
    (tensor(18, dataType=DataType.FLOAT16), "has no kernel for FLOAT16, FLOAT32 to FLOAT32"),
    (tensor(20, dataType=DataType.FLOAT16), "has no kernel for FLOAT32, FLOAT32 to FLOAT16"),
    (scales(14, scale=0.5), "node 1 (Transpose) moves quantized values to another scale or zero point"),
    (
        scales(15, scale=1e-3),
        "node 2 (Add) rescales quantized values by 400, which is not in [0.000977, 256)",
    ),
    (operation(0, kernelHeight=0), "node 0 (Convolution) has the kernel height 0"),
    (operation(0, strideWidth=0), "node 0 (Convolution) has the stride width 0"),
    (operation(0, groups=0), "node 0 (Convolution) has the groups 0"),
    (operation(0, groups=2), "has a filter of the shape [4, 3, 3, 2] instead of [8, 3, 3, 2]"),
    (operation(0, flags=1), "node 0 (Convolution) has the flags 0x1"),
    (operation(0, flags=4, paddingTop=1), "has pads, and a flag by which they are computed"),
    (operation(0, filterId=13), "has a filter or bias that is not a constant: value 13"),
    (operation(1, permutation=[0, 1, 2]), "has 3 integers for an input that is declared with 4 dimensions"),
    (operation(1, permutation=[0] * 7), "has 7 integers, one for each of at most 6 dimensions"),
]


@pytest.mark.parametrize(("edit", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_every_fault_is_named(edit: Edit, message: str) -> None:
    blob = network()
    edit(blob.graph)
    assert message in message_of(blob.data())


def test_all_faults_are_in_one_message() -> None:
    blob = network()
    for edit in (tensor(10, flags=4), operation(1, inputId=99), limits(1.0, 0.0)):
        edit(blob.graph)
    assert message_of(blob.data()).count("; ") == 2


def test_attention_has_no_runtime() -> None:
    blob = network()
    ids = [20, 20, 20, 20, 20]
    blob.node("Attention", *ids, blob.value(DataType.FLOAT32, (3, 8)), 0)
    assert message_of(blob.data()).endswith("(Attention) is of a type that no runtime implements")


@pytest.mark.parametrize("index", [1, 2])
def test_a_layer_has_a_constant_filter_and_bias_or_neither(index: int) -> None:
    fields: list[Any] = [In(random(5, 4)), K(random(6, 4)), K(random(6)), Out(), 0]
    Case("", "FullyConnected", fields).executor()
    fields[index] = In(fields[index].content)
    message = message_of(Case("", "FullyConnected", fields).blob().data())
    assert "has a filter and a bias of which only one is a constant" in message


def test_what_the_runtime_does_not_read_may_be_wrong() -> None:
    graph = graph_of()
    graph.version, graph.inputIds, graph.outputIds = None, [], []
    for each in graph.values:
        tensor_of(each).numDims = 9
    tensor(15, dims=[])(graph)
    data = bytearray(join(write_blob(graph, checked=False)))
    read_blob(memoryview(join([bytes(data[:22]), struct.pack("<Q", 80), bytes(data[30:]), GOOD[-80:]])))
