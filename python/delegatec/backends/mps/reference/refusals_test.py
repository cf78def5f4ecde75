# SPDX-License-Identifier: Apache-2.0
"""Operations on which the runtime or MPSGraph would abort: each is rejected with a message."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import torch
from delegatec_schemas.mps_graph import (
    AddmmT,
    ArangeT,
    BatchNormT,
    BinaryT,
    CastT,
    CatT,
    ConstantPadT,
    ConvolutionT,
    DataType,
    DequantizePerChannelGroupT,
    DivisionT,
    EmbeddingT,
    FullT,
    GeluT,
    IndexPutT,
    IndexSelectT,
    IndexTensorT,
    LayerNormT,
    MeanT,
    PermuteT,
    PixelShuffleT,
    Pool2dT,
    ScaledBinaryT,
    ScatterT,
    SelectT,
    SliceT,
    SoftmaxT,
    SplitWithSizesT,
    SqueezeT,
    TernaryT,
    UnaryT,
    UnsqueezeT,
    ViewT,
)

from delegatec.backends.mps.testing.reference.synthetic import executor, make_blob
from delegatec.diagnostics import DelegatecError

X: Final = torch.rand(2, 3, 4)
HALF: Final = X.half()
INTEGERS: Final = torch.ones(2, 3, 4, dtype=torch.int32)
LONG: Final = INTEGERS.long()
BOOL: Final = INTEGERS > 0
IMAGE: Final = torch.rand(1, 3, 5, 5)
WINDOW: Final = {"kernelHeight": 2, "kernelWidth": 2, "strideHeight": 1, "strideWidth": 1, "output1Id": 10}
STRIDES: Final = {"strideX": 1, "strideY": 1, "dilationX": 1, "dilationY": 1}


def _pool(**fields: Any) -> Pool2dT:
    return Pool2dT(**{**WINDOW, "dilationHeight": 1, "dilationWidth": 1, "output2Id": 11, **fields})


def _convolution(groups: int = 1, bias: int = -1, **fields: Any) -> ConvolutionT:
    return ConvolutionT(0, 1, bias, 10, **{**STRIDES, "groups": groups, **fields})


REJECTED: Final[list[tuple[str, object, tuple[torch.Tensor, ...], str]]] = [
    ("Exp", UnaryT(0, 10), (INTEGERS,), "Exp of int32; MPSGraph supports it for floats only"),
    ("Floor", UnaryT(0, 10), (LONG,), "Floor of int64"),
    ("Round", UnaryT(0, 10), (LONG,), "Round of int64"),
    ("Neg", UnaryT(0, 10), (BOOL,), "Neg of bool"),
    ("Relu", BinaryT(0, 0, 10), (BOOL,), "Relu of bool"),
    ("BitwiseNot", UnaryT(0, 10), (X,), "BitwiseNot of float32"),
    ("BitwiseAnd", BinaryT(0, 1, 10), (X, X), "BitwiseAnd of float32"),
    ("Add", ScaledBinaryT(0, 1, 10, 1.0), (INTEGERS, LONG), "it does not promote int32 and int64"),
    ("Mul", BinaryT(0, 1, 10), (BOOL, INTEGERS), "it does not promote bool and int32"),
    ("Eq", BinaryT(0, 1, 10), (X, X[:, :2]), "Eq of shapes [2, 3, 4] and [2, 2, 4], which do not broadcast"),
    ("Div", DivisionT(0, 1, 10, b"trunc"), (HALF, X), "it does not truncate in float16"),
    ("Div", DivisionT(0, 1, 10, b"ceil"), (X, X), "Div with the rounding mode 'ceil'"),
    ("Div", DivisionT(0, 1, 10, b""), (X, X), "Div with the rounding mode ''"),
    ("Div", DivisionT(0, 1, 10, b"\x80"), (X, X), "Div with the rounding mode '\N{REPLACEMENT CHARACTER}'"),
    ("Fmod", DivisionT(0, 1, 10, None), (HALF, HALF), "it does not truncate in float16"),
    ("Gelu", GeluT(0, 10, None), (X,), "Gelu without a name of the approximation"),
    ("Gelu", GeluT(0, 10, b"none"), (INTEGERS,), "Gelu of int32"),
    ("Softmax", SoftmaxT(0, 10, 0, True), (HALF,), "softmax from float16 to float32"),
    ("LogSoftmax", SoftmaxT(0, 10, 3, False), (X,), "Softmax along dimension 3 of a tensor of 3 dimensions"),
    ("Where", TernaryT(0, 1, 2, 10), (BOOL, X, HALF), "have the dtypes float16, float32"),
    ("MatMul", BinaryT(0, 1, 10), (X, X), "MatMul of shapes [2, 3, 4] and [2, 3, 4]"),
    ("MatMul", BinaryT(0, 1, 10), (X, X[0, 0]), "MatMul of shapes [2, 3, 4] and [4]"),
    ("MatMul", BinaryT(0, 1, 10), (INTEGERS, INTEGERS.mT), "MatMul of int32"),
    ("MatMul", BinaryT(0, 1, 10), (X, torch.rand(3, 4, 1)), "MatMul's batches of shapes [2] and [3]"),
    ("Addmm", AddmmT(0, 1, 2, 10, 1.0, 1.0), (HALF[0, 0, :3], X[0], X[0].T), "have the dtypes float16"),
    ("Conv2D", _convolution(), (IMAGE, torch.rand(2, 2, 1, 1)), "a convolution of shape [1, 3, 5, 5]"),
    ("Conv2D", _convolution(groups=3), (IMAGE, torch.rand(4, 1, 1, 1)), "in 3 groups"),
    ("Conv2D", _convolution(), (IMAGE, torch.rand(2, 3, 6, 1)), "a window of [6, 1] over [5, 5]"),
    ("Conv2D", _convolution(strideX=0), (IMAGE, torch.rand(2, 3, 1, 1)), "with stride [1, 0]"),
    ("Conv2D", _convolution(paddingLeft=-1), (IMAGE, torch.rand(2, 3, 1, 1)), "padding [-1, 0, 0, 0]"),
    ("Conv2D", _convolution(), (X, torch.rand(2, 3, 1, 1)), "a convolution of shape [2, 3, 4]"),
    ("Conv2D", _convolution(), (IMAGE, torch.rand(2, 3, 1)), "a convolution of shape [1, 3, 5, 5]"),
    (
        "Conv2D",
        _convolution(),
        (torch.rand(1, 3, 4, 4, 4), torch.rand(2, 3, 1, 1, 1)),
        "a convolution of shape",
    ),
    (
        "Conv2D",
        _convolution(bias=2),
        (IMAGE, torch.rand(2, 3, 1, 1), torch.rand(2, 1)),
        "a bias of shape [2, 1]",
    ),
    ("Conv2D", _convolution(bias=2), (IMAGE, torch.rand(2, 3, 1, 1), torch.rand(3)), "do not broadcast"),
    ("DepthwiseConv2D", _convolution(3), (X, torch.rand(3, 1, 2)), "a depthwise convolution of rank 3"),
    (
        "DepthwiseConv2D",
        _convolution(3),
        (IMAGE, torch.rand(6, 1, 2, 2)),
        "a depthwise convolution of 3 channels",
    ),
    ("MaxPool2DWithIndices", _pool(), (X,), "pooling of rank 3"),
    ("MaxPool2DWithIndices", _pool(), (IMAGE.int(),), "max pooling of int32"),
    ("AvgPool2D", _pool(kernelHeight=0), (IMAGE,), "a window of [0, 2]"),
    ("AvgPool2D", _pool(divisorOverride=2), (IMAGE.half(),), "average pooling in float16 with a divisor"),
    (
        "BatchNorm",
        BatchNormT(0, 1, 1, 1, -1, 0.1, 0.1, 11, 10, 12),
        (IMAGE, torch.rand(3)),
        "value -1 is used",
    ),
    (
        "BatchNorm",
        BatchNormT(0, 1, 1, 1, 1, 0.1, 0.1, 11, 10, 12),
        (IMAGE, torch.rand(4)),
        "BatchNorm of shape",
    ),
    ("LayerNorm", LayerNormT(0, [4], 1, -1, 0.1, 11, 10, 12), (X, torch.rand(4)), "value -1 is used"),
    ("LayerNorm", LayerNormT(0, [], 1, 1, 0.1, 11, 10, 12), (X, torch.rand(4)), "LayerNorm over 0 of 3"),
    ("Mean", MeanT(0, 10, 1, [3], True), (X,), "Mean along dimension 3"),
    ("Mean", MeanT(0, 10, 1, [0], True), (BOOL,), "Mean of bool"),
    ("Permute", PermuteT(0, 10, 2, [1, 0]), (X,), "a permutation [1, 0] of rank 3"),
    ("Permute", PermuteT(0, 10, 3, [-1, 0, 1]), (X,), "a permutation [-1, 0, 1]"),
    ("View", ViewT(0, 10, 2, [5, 5]), (X,), "a view of shape [2, 3, 4] as [5, 5]"),
    ("View", ViewT(0, 10, 2, [-1, -1]), (X,), "a view of shape"),
    ("View", ViewT(0, 10, 0, None), (X,), "it has no shape"),
    ("Expand", ViewT(0, 10, 2, [2, 3]), (X,), "an expansion of shape [2, 3, 4] to [2, 3]"),
    ("Expand", ViewT(0, 10, 3, [4, 3, 4]), (X,), "an expansion of shape"),
    ("Cat", CatT([0, 1], 10, 0), (X, HALF), "have the dtypes float16, float32"),
    ("Cat", CatT([0, 1], 10, 0), (X, X[0]), "a concatenation of ranks [3, 2]"),
    ("Cat", CatT([0, 1], 10, 0), (X, X[:, :2]), "which do not broadcast"),
    ("Cat", CatT([14, 14], 10, 0), (X,), "a concatenation of nothing"),
    ("Cat", CatT([0], 10, 3), (X,), "a concatenation along dimension 3"),
    ("Squeeze", SqueezeT(0, 10, [0]), (X,), "squeezing dimensions [0] of shape [2, 3, 4]"),
    ("Squeeze", SqueezeT(0, 10, [5]), (X,), "Squeeze along dimension 5"),
    ("Unsqueeze", UnsqueezeT(0, 10, 4), (X,), "Unsqueeze along dimension 4"),
    ("Select", SelectT(0, 10, 0, 2), (X,), "Select's index along dimension 2"),
    ("Slice", SliceT(0, 10, -1, 0, 1, 1), (X,), "Slice along dimension -1 of 3"),
    ("Slice", SliceT(0, 10, 0, 0, 1, 0), (X,), "Slice with a step of 0"),
    ("Slice", SliceT(0, 10, 0, 1, 1, 1), (X,), "it is empty"),
    ("PixelShuffle", PixelShuffleT(0, 10, 2), (X,), "PixelShuffle of shape [2, 3, 4] by 2"),
    (
        "SplitWithSizes",
        SplitWithSizesT(0, [10], [1, 1], 1),
        (X,),
        "a split of shape [2, 3, 4] along 1 into [1, 1]",
    ),
    ("SplitWithSizes", SplitWithSizesT(0, [10, 11], [3], 1), (X,), "for 2 results"),
    ("ConstantPadND", ConstantPadT(0, 10, [1] * 8, 0.0), (torch.rand(1, 1, 1, 1),), "of rank 4"),
    ("ConstantPadND", ConstantPadT(0, 10, [1] * 4, 0.0), (X[0, 0],), "padding [1, 1, 1, 1] of rank 1"),
    ("ConstantPadND", ConstantPadT(0, 10, [-1, 0], 0.0), (X,), "padding [-1, 0] of rank 3"),
    ("ConstantPadND", ConstantPadT(0, 10, [1, 0], 0.0), (BOOL,), "padding of bool"),
    ("Cast", CastT(0, 10, DataType.BFLOAT16), (X,), "unsupported type 4"),
    ("Cast", CastT(0, 10, DataType.INT4), (X,), "unsupported type 5"),
    ("Full", FullT(-1, 10, None, 1.0, DataType.FLOAT32), (X,), "it has no shape"),
    (
        "Full",
        FullT(-1, 10, [0, 2], 1.0, DataType.FLOAT32),
        (X,),
        "value 10 is used before its definition",
    ),
    ("Full", FullT(-1, 10, [2**16, 2**16], 1.0, DataType.FLOAT32), (X,), "more than 2147483647 elements"),
    ("Full", FullT(-1, 10, [1] * 17, 1.0, DataType.FLOAT32), (X,), "17 dimensions; MPSGraph supports 16"),
    ("Arange", ArangeT(10, 0.0, 5.0, 0.0, DataType.FLOAT32), (X,), "Arange of inf elements"),
    ("Arange", ArangeT(10, 5.0, 0.0, 1.0, DataType.FLOAT32), (X,), "Arange of -5.0 elements"),
    ("IndexSelect", IndexSelectT(0, 10, 3, 1), (X, INTEGERS[0, 0]), "IndexSelect along dimension 3"),
    ("IndexTensor", IndexTensorT(0, [-1, -1], 10), (X,), "IndexTensor with 0 indices"),
    ("IndexTensor", IndexTensorT(0, [1, 1], 10), (X, INTEGERS[0, 0]), "IndexTensor with 2 indices"),
    ("IndexTensor", IndexTensorT(0, [1], 10), (X, BOOL[0, 0]), "IndexTensor with an index of bool"),
    (
        "IndexTensor",
        IndexTensorT(0, [-1, -1, -1, 1], 10),
        (X, INTEGERS[0, 0]),
        "IndexTensor along dimension 3",
    ),
    ("IndexPut", IndexPutT(0, [1, 1], [], 2, 10), (X, INTEGERS[0, 0], X), "IndexPut with 2 indices"),
    (
        "IndexPut",
        IndexPutT(0, [1], [], 2, 10),
        (X, INTEGERS[0, 0], X),
        "IndexPut of values of shape [2, 3, 4]",
    ),
    (
        "IndexPut",
        IndexPutT(0, [1], [4, 3, 4], 2, 10),
        (X, INTEGERS[0, 0], X),
        "values of shape [2, 3, 4] for [4, 3, 4]",
    ),
    (
        "IndexPut",
        IndexPutT(0, [1], [], 2, 10),
        (X, INTEGERS[0, 0, :2], HALF),
        "have the dtypes float16, float32",
    ),
    ("Scatter", ScatterT(0, 10, 1, 1, 2), (X, LONG[:, :1, :2], X[:, :1, :2]), "Scatter into shape [2, 3, 4]"),
    ("Scatter", ScatterT(0, 10, 1, 1, 2), (X, LONG[:, :1], X), "Scatter into shape [2, 3, 4]"),
    ("Scatter", ScatterT(0, 10, 1, 1, 2), (X, X, X), "Scatter with an index of float32"),
    ("Embedding", EmbeddingT(0, 1, 10, 0), (X, LONG), "Embedding with a padding index"),
    (
        "DequantizePerChannelGroup",
        DequantizePerChannelGroupT(0, 10, 1),
        (INTEGERS, X),
        "value 0 is not of type int4",
    ),
]


@pytest.mark.parametrize(("name", "table", "inputs", "message"), REJECTED)
def test_rejected(name: str, table: object, inputs: tuple[torch.Tensor, ...], message: str) -> None:
    run = executor(make_blob([(name, table)], inputs, {10: X}))
    with pytest.raises(DelegatecError, match=re.escape(message)) as error:
        run(inputs)
    assert error.value.diagnostics[0].code == "DC408"


INT4: Final = torch.zeros(2, 4, dtype=torch.int8)


def test_only_dequantization_supports_int4() -> None:
    blob = make_blob([("View", ViewT(5, 10, 1, [8]))], (X,), {10: X}, int4={5: INT4})
    with pytest.raises(DelegatecError, match="value 5 is of type int4"):
        executor(blob)((X,))


@pytest.mark.parametrize("shape", [(2, 3), (4, 2), (8,), (2, 2, 1)])
def test_scales_that_do_not_divide_the_weight_are_rejected(shape: tuple[int, ...]) -> None:
    table = DequantizePerChannelGroupT(5, 10, 0, -1)
    scales = torch.ones(shape, dtype=torch.float16)
    blob = make_blob([("DequantizePerChannelGroup", table)], (scales,), {10: X}, int4={5: INT4})
    with pytest.raises(DelegatecError, match="for a weight of shape"):
        executor(blob)((scales,))
