# SPDX-License-Identifier: Apache-2.0
"""Every row of the operator table, lowered to a blob and run from the blob, against eager."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.export.graph_signature import TensorArgument
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.mps.operators.table import ROWS, index_rows
from delegatec.backends.mps.reference.executor import OPERATION_NAMES, SEMANTICS
from delegatec.backends.mps.testing import compile_module, compile_program, eager, operations
from delegatec.edge import to_edge
from delegatec.edge.builder import Builder

aten = torch.ops.aten
BOOL = torch.tensor([True, False, True])


class Call(torch.nn.Module):
    """A module that is one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 1.6 - 0.8


def ints(*shape: int, high: int = 5, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


X = floats(2, 3, 4)
Y = floats(2, 3, 4, seed=1)
IMAGE = floats(2, 6, 7, 8)
UNARY = [
    *("abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor"),
    *("neg", "reciprocal", "relu", "sigmoid", "sign", "sin", "sinh", "tan", "tanh"),
]
POSITIVE = ["log", "log10", "log2", "rsqrt", "sqrt"]
COMPARISONS = ["eq", "ge", "gt", "le", "lt", "ne"]

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    **{name: (getattr(torch, name), (X,), "") for name in UNARY},
    **{name: (getattr(torch, name), (X.abs() + 0.1,), "") for name in POSITIVE},
    "acosh": (torch.acosh, (X.abs() + 1.1,), "Acosh"),
    "exp of int": (torch.exp, (ints(3),), "Cast Exp"),
    "neg of int": (torch.neg, (ints(3),), "Neg"),
    "isnan": (torch.isnan, (torch.tensor([1.0, float("nan")]),), "Isnan"),
    "isinf": (torch.isinf, (torch.tensor([1.0, float("inf"), -float("inf")]),), "Isinf"),
    "bitwise_not": (torch.bitwise_not, (ints(4),), "BitwiseNot"),
    "bitwise_not of bool": (torch.bitwise_not, (BOOL,), "BitwiseNot"),
    "logical_not": (torch.logical_not, (BOOL,), "LogicalNot"),
    "logical_not of float": (torch.logical_not, (torch.tensor([0.0, 0.5]),), "Ne LogicalNot"),
    "add": (torch.add, (X, Y), "Add"),
    "add broadcasts": (torch.add, (X, floats(4)), "Add"),
    "add alpha": (lambda a, b: torch.add(a, b, alpha=3), (X, Y), "Add"),
    "add scalar": (lambda a: a + 2, (X,), "Add"),
    "add int and float": (torch.add, (ints(3), floats(3)), "Cast Add"),
    "add int32 and int64": (torch.add, (ints(3, dtype=torch.int32), ints(3)), "Cast Add"),
    "add float to int": (lambda a: a + 0.5, (ints(3),), "Cast Add"),
    "sub alpha": (lambda a, b: torch.sub(a, b, alpha=0.5), (X, Y), "Sub"),
    "sub from scalar": (lambda a: 1.0 - a, (X,), "Sub"),
    "mul": (torch.mul, (X, Y), "Mul"),
    "mul bool": (torch.mul, (BOOL, floats(3)), "Cast Mul"),
    "mul large scalar int": (lambda a: a * 16777217, (ints(3),), "Mul"),
    "div": (torch.div, (X, Y), "Div"),
    "div of ints": (torch.div, (ints(3), ints(3) + 1), "Cast Cast Div"),
    "div trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (X * 9, Y), "Div"),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (X * 9, Y), "Div"),
    "floor_divide": (torch.floor_divide, (X * 9, Y), "Div"),
    "remainder": (torch.remainder, (X * 9, Y), "Remainder"),
    "remainder scalar": (lambda a: torch.remainder(a, 0.3), (X,), "Remainder"),
    "fmod": (torch.fmod, (X * 9, Y), "Fmod"),
    "fmod scalar": (lambda a: torch.fmod(a, 0.3), (X,), "Fmod"),
    "pow": (torch.pow, (X.abs(), Y), "Pow"),
    "pow scalar": (lambda a: torch.pow(a, 3), (X,), "Pow"),
    "scalar pow": (lambda a: torch.pow(2.0, a), (X,), "Pow"),
    "minimum": (torch.minimum, (X, Y), "Minimum"),
    "maximum": (torch.maximum, (X, floats(4)), "Neg Neg Minimum Neg"),
    **{name: (getattr(torch, name), (ints(9), ints(9).flip(0)), name.capitalize()) for name in COMPARISONS},
    "gt scalar": (lambda a: a > 0.1, (X,), "Gt"),
    "gt float scalar of int": (lambda a: a > 1.5, (ints(5),), "Cast Gt"),
    "eq of bools": (torch.eq, (BOOL, ~BOOL), "Cast Cast Eq"),
    "bitwise_and": (torch.bitwise_and, (ints(4), ints(4).flip(0)), "BitwiseAnd"),
    "bitwise_or of bool": (torch.bitwise_or, (BOOL, ~BOOL), "BitwiseOr"),
    "bitwise_xor scalar": (lambda a: a ^ 3, (ints(4),), "BitwiseXor"),
    "logical_and": (torch.logical_and, (BOOL, ~BOOL), "BitwiseAnd"),
    "logical_or of ints": (torch.logical_or, (ints(4), ints(4).flip(0)), "Ne Ne BitwiseOr"),
    "logical_xor": (torch.logical_xor, (BOOL, ~BOOL), "BitwiseXor"),
    "clamp": (lambda a: a.clamp(-0.2, 0.3), (X,), "Clamp"),
    "clamp min": (lambda a: a.clamp(min=0.1), (X,), "Clamp"),
    "clamp max of int": (lambda a: a.clamp(max=2), (ints(5),), "Clamp"),
    "hardtanh": (F.relu6, (X * 9,), "HardTanh"),
    "where": (torch.where, (X > 0, X, Y), "Where"),
    "where promotes": (lambda c, a: torch.where(c, a, torch.tensor(2.0)), (BOOL, ints(3)), "Cast Where"),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), (floats(3), BOOL), ""),
    "glu": (lambda x: F.glu(x, 1), (floats(2, 6, 4),), "SplitWithSizes Sigmoid Mul"),
    "gelu": (F.gelu, (X,), "Gelu"),
    "gelu tanh": (lambda a: F.gelu(a, approximate="tanh"), (X,), ""),
    "leaky_relu": (lambda a: F.leaky_relu(a, 0.3), (X,), "LeakyRelu"),
    "softmax": (lambda a: a.softmax(-1), (X,), "Softmax"),
    "log_softmax": (lambda a: a.log_softmax(1), (X,), "LogSoftmax"),
    "mm": (torch.mm, (floats(3, 4), floats(4, 5)), "MatMul"),
    "bmm": (torch.bmm, (X, floats(2, 4, 5)), "MatMul"),
    "addmm": (torch.addmm, (floats(5), floats(3, 4), floats(4, 5)), "Addmm"),
    "addmm scaled": (
        lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=3),
        (floats(5), floats(3, 4), floats(4, 5)),
        "Addmm",
    ),
    "addmm without bias": (
        lambda a, b, c: torch.addmm(a, b, c, beta=0, alpha=2),
        (torch.full((5,), float("nan")), floats(3, 4), floats(4, 5)),
        "MatMul Mul",
    ),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        (IMAGE, floats(4, 6, 3, 2), floats(4)),
        "Conv2D",
    ),
    "conv2d without bias": (F.conv2d, (IMAGE, floats(4, 6, 3, 2)), "Conv2D"),
    "conv2d in groups": (lambda x, w: F.conv2d(x, w, groups=2), (IMAGE, floats(4, 3, 3, 2)), "Conv2D"),
    "conv2d depthwise": (
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=6),
        (IMAGE, floats(6, 1, 3, 3), floats(6)),
        "DepthwiseConv2D",
    ),
    "conv2d two filters a channel": (
        lambda x, w: F.conv2d(x, w, groups=6),
        (IMAGE, floats(12, 1, 3, 3)),
        "Conv2D",
    ),
    "conv1d": (
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1, dilation=2),
        (floats(2, 6, 9), floats(4, 6, 3), floats(4)),
        "Conv2D",
    ),
    "conv1d depthwise": (
        lambda x, w: F.conv1d(x, w, padding=1, groups=6),
        (floats(2, 6, 9), floats(6, 1, 3)),
        "Conv2D",
    ),
    "batch_norm": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, eps=1e-3),
        (IMAGE, floats(6), floats(6).abs() + 0.1, floats(6, seed=3), floats(6, seed=4)),
        "BatchNorm",
    ),
    "batch_norm without weight": (
        lambda x, m, v: F.batch_norm(x, m, v),
        (floats(3, 6), floats(6), floats(6).abs() + 0.1),
        "BatchNorm",
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (3, 4), w, b),
        (X, floats(3, 4), floats(3, 4, seed=5)),
        "LayerNorm",
    ),
    "layer_norm without weight": (lambda x: F.layer_norm(x, (4,)), (X,), "LayerNorm"),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 3, stride=2, padding=1, dilation=2),
        (IMAGE,),
        "MaxPool2DWithIndices",
    ),
    "max_pool2d without stride": (lambda x: F.max_pool2d(x, (2, 3)), (IMAGE,), "MaxPool2DWithIndices"),
    "max_pool2d ceil": (
        lambda x: F.max_pool2d(x, 3, 2, padding=1, ceil_mode=True),
        (IMAGE,),
        "MaxPool2DWithIndices",
    ),
    "max_pool2d indices": (
        lambda x: F.max_pool2d(x, 3, 2, padding=1, return_indices=True),
        (IMAGE,),
        "MaxPool2DWithIndices Cast",
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, padding=1), (IMAGE,), "AvgPool2D"),
    "avg_pool2d excludes padding": (
        lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False),
        (IMAGE,),
        "AvgPool2D",
    ),
    "avg_pool2d ceil": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (IMAGE,), "AvgPool2D"),
    "avg_pool2d divisor": (
        lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False, divisor_override=5),
        (IMAGE,),
        "AvgPool2D",
    ),
    "mean": (lambda x: x.mean((1, -1)), (X,), "Mean"),
    "mean keepdim": (lambda x: x.mean(1, keepdim=True), (X,), "Mean"),
    "mean of all": (lambda x: x.mean(), (X,), "Mean"),
    "sum": (lambda x: x.sum(1), (X,), "Mean Mul"),
    "embedding": (lambda i, w: F.embedding(i, w), (ints(2, 3), floats(5, 4)), "Embedding"),
    "embedding with padding": (
        lambda i, w: F.embedding(i, w, padding_idx=0),
        (torch.tensor([[0, 1], [2, 0]]), floats(5, 4)),
        "Embedding",
    ),
    "index_select": (lambda x, i: x.index_select(-1, i), (X, torch.tensor([3, 0, 3])), "IndexSelect"),
    "index": (lambda x, i: x[:, i] + 0, (X, torch.tensor([[2, 0], [1, 1]])), ""),
    "slice_scatter": (
        lambda x, y: torch.slice_scatter(x, y, 2, 0, 4, 2) + 0.5,
        (X, floats(2, 3, 2)),
        "",
    ),
}
MOVES: dict[str, tuple[Callable[..., Any], str]] = {
    "view": (lambda x: x.view(6, 4), "View"),
    "expand": (lambda x: x[:, :1].expand(2, 5, 4), "Slice Expand"),
    "expand to a higher rank": (lambda x: x.expand(3, 2, 3, 4), "View Expand"),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1), ""),
    "permute": (lambda x: x.permute(2, 0, 1), "Permute"),
    "transpose": (lambda x: x.transpose(0, -1), "Permute"),
    "squeeze": (lambda x: x[:1].squeeze(0), ""),
    "squeeze of nothing": (lambda x: torch.ops.aten.squeeze.dims(x, [1]), ""),
    "unsqueeze": (lambda x: x.unsqueeze(-1), ""),
    "unsqueeze of rank 0": (lambda x: x.mean().unsqueeze(0), ""),
    "select": (lambda x: x.select(-1, -2), "Select"),
    "slice": (lambda x: x[:, 1:3, 1::2], ""),
    "slice from the end": (lambda x: x[..., -3:-1], "Slice"),
    "cat": (lambda x: torch.cat([x, x.exp()], -1), ""),
    "stack": (lambda x: torch.stack([x, x.exp()], 1), ""),
    "split": (lambda x: x.split([1, 3], -1), ""),
    "chunk": (lambda x: x.chunk(2, -1), ""),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x.view(1, 4, 2, 3), 2), ""),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0), "ConstantPadND"),
    "pad two dimensions": (lambda x: F.pad(x, (1, 0, 0, 2)), "ConstantPadND"),
    "to int": (lambda x: (x * 9).to(torch.int32), ""),
    "to half": (lambda x: x.half(), ""),
    "to bool": (lambda x: x.bool(), ""),
    "clone": (lambda x: x.clone(), ""),
}


def run_case(function: Callable[..., Any], args: tuple[torch.Tensor, ...], expected: str) -> None:
    module = Call(function)
    compiled = compile_module(module, args)
    left = [(r.operator, r.rule, r.message) for r in compiled.report.rejections]
    assert (len(compiled.delegates), left) == (1, [])
    if expected:
        assert operations(compiled.blobs()[0]) == expected.split()
    wanted = list(eager(module, args))
    for result, reference in zip(compiled(*args), wanted, strict=True):
        assert result.dtype == reference.dtype
        torch.testing.assert_close(result, reference, rtol=2e-5, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    function, expected = MOVES[name]

    def with_work(x: torch.Tensor) -> Any:
        # A delegate that only moves data is not made: something has to be computed as well.
        result = function(x + 1.0)
        return [r.float() * 2.0 for r in (result if isinstance(result, (tuple, list)) else (result,))]

    module = Call(with_work)
    compiled = compile_module(module, (X,))
    assert (len(compiled.delegates), compiled.report.rejections) == (1, [])
    for operation in expected.split():
        assert operation in operations(compiled.blobs()[0])
    for result, reference in zip(compiled(X), eager(module, (X,)), strict=True):
        torch.testing.assert_close(result, reference, rtol=2e-5, atol=2e-6, equal_nan=True)


Build = Callable[[Builder, torch.fx.Node], torch.fx.Node]

# What the edge program's own passes fold or rewrite before a delegate sees it, as single nodes.
NODES: dict[str, tuple[Build, str]] = {
    "full": (lambda b, x: b.call(aten.full.default, [2, 3, 4], 2.5), "Full"),
    "full of NaN": (lambda b, x: b.call(aten.full.default, [2, 3, 4], float("nan")), "Full"),
    "full of infinity": (lambda b, x: b.call(aten.full.default, [4], float("-inf")), "Full"),
    "full of int64": (lambda b, x: b.call(aten.full.default, [4], 3, dtype=torch.int64), "Full Cast"),
    "full of bool": (lambda b, x: b.call(aten.full.default, [4], True, dtype=torch.bool), "Full Cast"),
    "full_like": (lambda b, x: b.call(aten.full_like.default, x, -1.5), "Full"),
    "scalar_tensor": (lambda b, x: b.call(aten.scalar_tensor.default, 7.0), "Full"),
    "arange": (lambda b, x: b.call(aten.arange.start_step, 1, 9, 2, dtype=torch.float32), "Arange"),
    "arange of int64": (lambda b, x: b.call(aten.arange.start_step, 8, 0, -2), "Arange Cast"),
    "alias": (lambda b, x: b.call(aten.alias.default, x), ""),
    "detach": (lambda b, x: b.call(aten.detach.default, x), ""),
    "reshape": (lambda b, x: b.call(aten.reshape.default, x, [-1, 4]), "View"),
    "squeeze.dim": (
        lambda b, x: b.call(aten.squeeze.dim, b.call(aten.unsqueeze.default, x, 1), -3),
        "Squeeze",
    ),
    "squeeze": (lambda b, x: b.call(aten.squeeze.default, b.call(aten.unsqueeze.default, x, 1)), "Squeeze"),
    "stack": (lambda b, x: b.call(aten.stack.default, [x, x], -2), "View Cat"),
    "unbind": (
        lambda b, x: b.call(operator.getitem, b.call(aten.unbind.int, x, -1), 2, val=x.meta["val"][..., 2]),
        "Select",
    ),
    "transpose": (lambda b, x: b.call(aten.transpose.int, x, 1, -1), "Permute"),
    "permute of rank 0": (lambda b, x: b.call(aten.permute.default, b.call(aten.mean.default, x), []), ""),
    "expand of rank 0": (
        lambda b, x: b.call(aten.expand.default, b.call(aten.mean.default, x), [2, 4]),
        "View Expand",
    ),
}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", NODES)
def test_node(name: str, precision: str) -> None:
    function, expected = NODES[name]
    program = to_edge(torch.export.export(Call(lambda x: x + 1.0), (X,)))
    output = program.output_node()
    (work,) = output.all_input_nodes
    builder = Builder(program).at(output)
    extra = builder.call(aten._to_copy.default, function(builder, work), dtype=torch.float32)
    if extra.meta["val"].dim():
        extra = builder.call(aten.mean.default, extra)
    node = builder.call(aten.add.Tensor, work, extra)
    output.args = ((node,),)
    program.output_specs[0] = replace(program.output_specs[0], arg=TensorArgument(node.name))
    wanted = torch.fx.Interpreter(program.graph_module).run(X)
    compiled = compile_program(program, precision)
    assert (len(compiled.delegates), compiled.report.rejections) == (1, [])
    for operation in expected.split():
        assert operation in operations(compiled.blobs()[0])
    tolerance = {"fp32": 1e-6, "fp16": 2e-2}[precision]
    torch.testing.assert_close(compiled(X)[0], wanted[0], rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,)])
def test_linear_left_whole(shape: tuple[int, ...], bias: bool) -> None:
    module, x = torch.nn.Linear(4, 5, bias), floats(*shape)
    compiled = compile_module(module, (x,), preserve=[aten.linear.default])
    assert list(compiled.report.delegates[0].operators) == ["aten.linear.default"]
    for result, reference in zip(compiled(x), eager(module, (x,)), strict=True):
        torch.testing.assert_close(result, reference)


def test_every_operation_of_every_row_has_semantics() -> None:
    emitted = {operation for row in ROWS.values() for operation in row.emits}
    assert emitted <= set(OPERATION_NAMES.values())
    assert emitted <= set(SEMANTICS)


def test_an_overload_with_two_rows_is_an_error() -> None:
    row = ROWS[aten.relu.default]
    with pytest.raises(ValueError, match=r"aten\.relu\.default has two rows"):
        index_rows([row, row])
