# SPDX-License-Identifier: Apache-2.0
"""Graphs of few nodes, with operands where results are not obvious: NaN, signs, ties, bounds."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import torch
from delegatec_schemas import mlx_graph as schema
from torch import Tensor

from delegatec.backends.common.testing import floats
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.backends.mlx.testing.nodes import blob_of, integer, node, node_of_inputs
from delegatec.diagnostics import DelegatecError
from delegatec.program import write_program
from tests.oracle.blob_program import program_of
from tests.oracle.mlx_case import Case

X: Final = floats(2, 3, 4)
Y: Final = floats(2, 3, 4, seed=1)
HALF: Final = X.half()
SPECIAL: Final = torch.tensor(
    [0.5, -0.5, 1.0, -1.5, 2.5, -2.5, 3.75, 90.0, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e-30, -7.0]
)
INTEGERS: Final = torch.tensor([7, -7, 6, -6, 0, 1, -1, 2**31 + 5, -(2**40)])
SMALL: Final = torch.tensor([127, -128, 5, -5, 0], dtype=torch.int8)
DIVISORS: Final = torch.tensor([[3], [-3], [2], [-4]])
BOOLS: Final = torch.tensor([True, False, True])
# Rows with NaN first, between and last; infinities; equal elements.
ROWS: Final = torch.tensor(
    [
        [1.0, math.nan, 3.0, 2.0],
        [math.nan, 1.0, 3.0, 2.0],
        [3.0, 1.0, 2.0, math.nan],
        [math.nan, math.nan, math.nan, math.nan],
        [math.inf, -math.inf, 0.0, -0.0],
        [-math.inf, -math.inf, -math.inf, -math.inf],
        [2.0, 1.0, 2.0, 1.0],
    ]
)
FINITE: Final = floats(3, 5)
COUNTS: Final = torch.tensor([[3, -2, 9], [9, 0, -5]])
MASK: Final = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
QKV: Final = tuple(floats(1, heads, length, 8, seed=heads) for heads, length in ((4, 3), (2, 5), (2, 5)))

_TRANSCENDENTAL: Final = (
    *("Arccos", "Arccosh", "Arcsin", "Arcsinh", "Arctan", "Arctanh", "Cos", "Cosh", "Erf", "Exp", "Expm1"),
    *("Log", "Log10", "Log1p", "Log2", "Reciprocal", "Rsqrt", "Sigmoid", "Silu", "Sin", "Sinh", "Sqrt"),
    *("Tan", "Tanh"),
)
_EXACT: Final = ("Abs", "Ceil", "Floor", "Neg", "Sign", "Square", "Trunc", "Round")
_COMPARISONS: Final = ("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual")
_ARITHMETIC: Final = ("Add", "Subtract", "Multiply", "Maximum", "Minimum")
_FLOATING: Final = (*_ARITHMETIC, "Divide", "FloorDivide", "Remainder", "Power", "Atan2", "LogAddExp")
_REDUCTIONS: Final = ("Max", "Min", "Sum", "Mean", "Prod", "LogSumExp", "Any", "All", "Median")

# The node, fields with the inputs, the inputs, other fields.
_Spec = tuple[str, str, tuple[Tensor, ...], dict[str, Any]]


def _elementwise() -> Iterator[_Spec]:
    pairs = (SPECIAL[:, None], SPECIAL)
    for name in (*_TRANSCENDENTAL, *_EXACT):
        yield name, "x", (SPECIAL,), {}
        yield name, "x", (SPECIAL.half(),), {}
    for name in _TRANSCENDENTAL:
        yield name, "x", (torch.tensor([0, 1, 2, 3]),), {}
    for name in (*_EXACT, "BitwiseInvert"):
        yield name, "x", (INTEGERS,), {}
    yield from (("Neg", "x", (SMALL,), {}), ("Abs", "x", (SMALL,), {}), ("Square", "x", (SMALL,), {}))
    yield "Round", "x", (SPECIAL,), {"decimals": 1}
    for name in (*_FLOATING, *_COMPARISONS):
        yield name, "a b", pairs, {}
        if name != "Remainder":  # rows compute it in float32: MLX's code for a CPU is wrong for float16
            yield name, "a b", tuple(each.half() for each in pairs), {}
    for name in (*_ARITHMETIC, "Divide", "FloorDivide", "Remainder", *_COMPARISONS):
        yield name, "a b", (INTEGERS, DIVISORS), {}
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield name, "a b", (INTEGERS, DIVISORS), {}
    yield "Power", "a b", (INTEGERS, torch.tensor([[0], [1], [3]])), {}
    yield "Add", "a b", (SMALL, SMALL), {}
    yield "Multiply", "a b", (SMALL, SMALL), {}
    yield "Add", "a b", (X, HALF), {}
    yield "Add", "a b", (HALF, HALF.bfloat16()), {}
    yield "Multiply", "a b", (torch.arange(4), HALF[0, :, :]), {}
    for name in ("LogicalAnd", "LogicalOr"):
        yield name, "a b", (BOOLS, BOOLS[:, None]), {}
        yield name, "a b", pairs, {}
    yield "LogicalNot", "x", (SPECIAL,), {}
    yield "LogicalNot", "x", (INTEGERS,), {}
    for approximate in ("none", "tanh"):
        yield "Gelu", "x", (SPECIAL,), {"approximate": approximate}
        yield "Gelu", "x", (HALF,), {"approximate": approximate}
    yield "Where", "condition x y", (BOOLS, SPECIAL[:3], SPECIAL[3:6]), {}
    yield "Where", "condition x y", (SPECIAL[7:10], torch.tensor([1, 2, 3]), SPECIAL[:3]), {}
    yield "Clip", "x low", (SPECIAL, torch.tensor(-1.0)), {}
    yield "Clip", "x high", (SPECIAL, torch.tensor(1.0)), {}
    yield "Clip", "x low high", (SPECIAL, torch.tensor(1.0), torch.tensor(-1.0)), {}
    yield "Clip", "x low high", (SPECIAL, torch.tensor(math.nan), torch.tensor(1.0)), {}
    for name in ("IdCopy", "Contiguous"):
        yield name, "x", (X,), {}
    finite = torch.tensor([0.5, -0.5, 1.99, -1.99, 127.0, -3.0])
    for dtype in (torch.int64, torch.int8, torch.bool, torch.float16, torch.bfloat16):
        yield "AsType", "x", (finite,), {"dtype": TO_FORMAT[dtype]}
    yield "AsType", "x", (SPECIAL * 1e3,), {"dtype": TO_FORMAT[torch.float16]}
    yield "AsType", "x", (SPECIAL,), {"dtype": TO_FORMAT[torch.bool]}
    yield "AsType", "x", (INTEGERS,), {"dtype": TO_FORMAT[torch.int32]}
    yield "AsType", "x", (INTEGERS,), {"dtype": TO_FORMAT[torch.float32]}


def _reductions() -> Iterator[_Spec]:
    for name in _REDUCTIONS:
        yield name, "x", (FINITE,), {"axes": [1]}
        yield name, "x", (X,), {"axes": [-1, 0], "keepdims": True}
        yield name, "x", (HALF,), {"axes": [2]}
        if name != "Median":
            yield name, "x", (ROWS,), {"axes": [-1]}
        yield name, "x", (COUNTS,), {"axes": [1]}
        if name not in ("LogSumExp", "Median"):
            yield name, "x", (MASK,), {"axes": [1]}
    yield "Sum", "x", (FINITE,), {}
    for name in ("Var", "Std"):
        for ddof in (0, 1, 5):
            yield name, "x", (FINITE,), {"axes": [1], "ddof": ddof}
        yield name, "x", (ROWS,), {"axes": [-1], "ddof": 1}
    for name in ("Argmax", "Argmin"):
        yield name, "x", (ROWS,), {"axis": -1}
        yield name, "x", (ROWS,), {"axis": 0, "keepdims": True}
        yield name, "x", (COUNTS,), {"axis": 1}
        yield name, "x", (ROWS.half(),), {"axis": 1}
    for options in ({}, {"reverse": True}, {"inclusive": False}, {"reverse": True, "inclusive": False}):
        yield "Cumsum", "x", (FINITE,), {"axis": 1, **options}
    yield "Cumsum", "x", (ROWS,), {"axis": 1}
    yield "Cumsum", "x", (MASK,), {"axis": 0}
    for name in ("Sort", "Argsort"):
        yield name, "x", (ROWS[[4, 6]],), {"axis": -1}
        yield name, "x", (ROWS[:3],), {"axis": 1}
        yield name, "x", (COUNTS,), {"axis": 0}
        yield name, "x", (torch.tensor([1, 0, 1, 0, 2] * 9),), {"axis": 0}
    for precise in (False, True):
        yield "Softmax", "x", (ROWS,), {"axis": 1, "precise": precise}
        yield "Softmax", "x", (HALF * 20,), {"axis": 1, "precise": precise}


def _moves() -> Iterator[_Spec]:
    def integers(*values: int) -> list[schema.IntT]:
        return [integer(value) for value in values]

    least, most = -(2**31), 2**31 - 1
    yield "Reshape", "x", (X,), {"shape": integers(4, -1)}
    yield "Reshape", "x", (X,), {"shape": integers(5, -1)}
    yield "BroadcastTo", "x", (X[:, :1],), {"shape": integers(2, 2, 5, 4)}
    yield "Transpose", "x", (X,), {"perm": [2, 0, 1]}
    yield "ExpandDims", "x", (X,), {"axis": -1}
    yield "Squeeze", "x", (X[:, :1],), {"dims": [1]}
    yield "Squeeze", "x", (X[:1, :1],), {"dims": None}
    yield "AsStrided", "x", (X,), {"shape": integers(3, 2), "strides": integers(2, 5), "offset": 3}
    for start, stop, step in ((1, 3, 1), (-3, most, 2), (most, least, -2), (2, -2, 1), (-1, least, -1)):
        bounds = {"start": integer(start), "stop": integer(stop), "step": step}
        yield "Slice", "x", (FINITE,), {"axis": integer(1), **bounds}
    for amounts in ((3,), (1, 3)):
        yield "Split", "x", (FINITE,), {"sizes": integers(*amounts), "axis": 1}
    yield "Concatenate", "tensors*", (X, Y, X), {"axis": -1}
    yield "Concatenate", "tensors*", (COUNTS[0], SPECIAL[:2]), {"axis": 0}
    yield "Stack", "tensors*", (X, Y), {"axis": 1}
    yield "Tile", "x", (X,), {"reps": integers(2, 1, 2)}
    yield "Tile", "x", (FINITE,), {"reps": integers(2, 1, 1)}
    yield "Repeat", "x", (FINITE,), {"repeats": integer(2), "axis": -1}
    for mode in ("constant", "edge"):
        yield "Pad", "x", (FINITE,), {"amounts": integers(1, 0, 2, 3), "mode": mode, "value": -0.5}
    yield "Pad", "x", (FINITE,), {"amounts": integers(1, 1, 0, 0), "mode": "constant", "value": -math.inf}
    yield "Pad", "x", (COUNTS,), {"amounts": integers(0, 0, 1, 1), "mode": "constant", "value": 2.0}
    yield "Roll", "x", (FINITE,), {"shifts": integers(-1, 7), "axes": [0, 1]}
    yield "Flip", "x", (X,), {"axes": [0, -1]}
    for k in (-1, 1):
        yield "Tril", "x", (X,), {"k": k}
        yield "Triu", "x", (ROWS,), {"k": k}
        yield "Tri", "", (X,), {"n": integer(3), "m": integer(4), "k": k, "dtype": TO_FORMAT[torch.float32]}
    for dtype in (torch.float32, torch.int64, torch.bool, torch.float16):
        content = {"value": schema.FloatT(literal=2.75), "dtype": TO_FORMAT[dtype]}
        yield "Full", "", (X,), {"shape": integers(2, 3), **content}
    yield "FullLike", "x", (X,), {"value": schema.FloatT(literal=-math.inf)}
    for dtype in (None, torch.int64, torch.float32):
        chosen = None if dtype is None else TO_FORMAT[dtype]
        steps = {"start": integer(5), "stop": integer(-4), "step": integer(-2)}
        yield "Arange", "", (X,), {**steps, "dtype": chosen}


def _indexing() -> Iterator[_Spec]:
    few = torch.tensor([[2, -1], [0, 2]])
    yield "Take", "x", (FINITE, few), {"axis": 0, "index": schema.IndexT(kind=2, tensor=schema.TensorT(1))}
    yield "Take", "x", (FINITE,), {"axis": 1, "index": schema.IndexT(literal=-2, kind=0)}
    yield "TakeAlongAxis", "x indices", (FINITE, torch.tensor([[4, -5, 0]] * 3)), {"axis": 1}
    slices = {"axes": [0, 1], "sliceSizes": [1, 1]}
    yield "Gather", "x indices*", (FINITE, few, torch.tensor([-1, 4])), slices
    yield "Gather", "x indices*", (X, torch.tensor([1, 0])), {"axes": [0], "sliceSizes": [1, 3, 2]}
    repeated = torch.tensor([[1, 1, 0, 1, 0]] * 3)
    yield "ScatterAdd", "x indices updates", (FINITE, repeated, FINITE * 2), {"axis": 1}
    yield "ScatterAdd", "x indices updates", (COUNTS, repeated[:2, :3] - 1, COUNTS), {"axis": 1}
    row = FINITE[0]
    update = torch.tensor([8.0, 9.0])
    # within, from the end, with steps; beyond a bound, where fewer elements are written than there are
    for start, stop, step in ((1, 3, 1), (-2, 5, 1), (0, 3, 2), (4, 6, 1), (5, 7, 1), (-7, -5, 1), (0, 2, 0)):
        bounds = {"start": integer(start), "stop": integer(stop), "step": step}
        yield "SliceUpdate", "dst update", (row, update), {"axis": integer(0), **bounds}
    for first, last in ((0, 3), (-1, -1), (2, 5), (2, -6)):
        positions = torch.tensor([first, last])
        yield "IndexCopy", "dst update indices", (row, update, positions), {"axis": 0}
    yield "IndexCopy", "dst update indices", (row, update, torch.tensor([0, 1]).int()), {"axis": 0}


def _layers() -> Iterator[_Spec]:
    yield "Addmm", "mat1 mat2", (FINITE, FINITE.T.contiguous()), {}
    yield "Addmm", "mat1 mat2", (X, floats(2, 4, 5, seed=2)), {}
    coefficients = {"alpha": 0.5, "beta": -2.0}
    yield "Addmm", "mat1 mat2 bias", (FINITE, FINITE.T.contiguous(), floats(3, seed=2)), coefficients
    matrices, chosen = floats(2, 4, 5, seed=2), torch.tensor([1, 0, 1])
    yield "GatherMm", "a b rhsIndices", (floats(3, 2, 4), matrices, chosen), {}
    yield "GatherMm", "a b lhsIndices", (matrices, floats(3, 5, 2), chosen), {}
    yield "GatherMm", "a b lhsIndices rhsIndices", (floats(2, 1, 4), matrices, chosen, chosen.flip(0)), {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        weight, bias = floats(4, seed=2).to(dtype), floats(4, seed=3).to(dtype)
        yield "LayerNorm", "x weight bias", (X.to(dtype), weight, bias), {"eps": 1e-5}
        yield "RmsNorm", "x weight", (X.to(dtype), weight), {"eps": 1e-5}
        q, k, v = (each.to(dtype) for each in QKV)
        yield "Sdpa", "q k v", (q, k, v), {"scale": 0.5}
        yield "Sdpa", "q k v", (q, k, v), {"scale": 0.5, "causal": True}
    yield "LayerNorm", "x", (X * 0 + 3,), {"eps": 1e-5}
    yield "RmsNorm", "x weight", (ROWS, torch.ones(4)), {"eps": 0.0}
    allowed = (floats(1, 1, 3, 5, seed=7) > -0.2).index_fill(2, torch.tensor(1), False)
    for mask in (allowed, torch.where(allowed, 0.25, -math.inf), allowed.repeat(1, 4, 1, 1)):
        yield "Sdpa", "q k v mask", (*QKV, mask), {"scale": 0.5}
    for traditional in (False, True):
        for offset in (torch.tensor(5), torch.tensor([3, 9])):
            fields = {"dims": 6, "traditional": traditional, "base": 100.0, "scale": 0.5}
            position = schema.ValueOrTensorT(tensor=schema.TensorT(1))
            yield "Rope", "x", (floats(2, 2, 3, 8), offset), {**fields, "offset": position}
    signal, image, volume = floats(2, 9, 4), floats(2, 7, 6, 4), floats(1, 4, 5, 3, 4)
    for groups in (1, 2):
        line = {"stride": 2, "padding": 1, "dilation": 2, "groups": groups}
        plane = {"strideH": 2, "strideW": 1, "paddingH": 1, "dilationW": 2, "groups": groups}
        yield "Conv1d", "x w", (signal, floats(6, 3, 4 // groups, seed=4)), line
        yield "Conv2d", "x w", (image, floats(6, 3, 2, 4 // groups, seed=4)), plane
        outer = {"stride": 2, "padding": 1, "outputPadding": 1, "groups": groups}
        yield "ConvTranspose1d", "x w", (signal, floats(6, 3, 4 // groups, seed=4)), outer
    yield "Conv2d", "x w", (image, floats(4, 3, 3, 1, seed=4)), {"groups": 4, "paddingH": 1}
    deep = {"strideD": 1, "strideH": 2, "paddingD": 1, "paddingW": 1, "dilationD": 2}
    yield "Conv3d", "x w", (volume, floats(2, 2, 3, 2, 4, seed=4)), deep
    wide = {"strideH": 2, "strideW": 3, "paddingH": 1, "outputPaddingH": 1, "dilationW": 2}
    yield "ConvTranspose2d", "x w", (image, floats(2, 3, 2, 4, seed=4)), wide
    yield "ConvTranspose3d", "x w", (volume, floats(2, 2, 3, 2, 4, seed=4)), {"strideD": 2, "paddingH": 1}


def _name(spec: _Spec) -> str:
    name, operands, inputs, fields = spec
    shown = [f"{key}={_shown(value)}" for key, value in fields.items()]
    tensors = [f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in inputs]
    return " ".join([name, *operands.split(), *tensors, *shown])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, (schema.IntT, schema.FloatT)):
        return str(value.literal)
    return str(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def _program(blob: bytes, inputs: Sequence[Tensor], results: int) -> bytes:
    """Returns the program of a blob, whose outputs have the shapes of the executor's."""
    try:
        outputs = MlxReferenceExecutor(read_blob(memoryview(blob)))(inputs)
    except DelegatecError:
        outputs = [torch.zeros(1)] * results
    # programs have no tensors of uint32
    outputs = [each.long() if each.dtype == torch.uint32 else each for each in outputs]
    file = io.BytesIO()
    write_program(program_of("MLXBackend", blob, inputs, outputs), file)
    return file.getvalue()


def _case(spec: _Spec) -> Case:
    name, operands, inputs, fields = spec
    inputs = tuple(each.contiguous() for each in inputs)
    results = 2 if name == "Split" else 1
    instruction = node_of_inputs(name, operands.split(), len(inputs), results, **fields)
    blob = blob_of([[instruction]], inputs, results)
    return Case(_name(spec), partial(_program, blob, inputs, results), (inputs,))


# ---- several nodes ---------------------------------------------------------------------------------------


def _chains(
    name: str, chains: Sequence[Sequence[schema.InstructionT]], *inputs: Tensor, **counts: int
) -> Case:
    blob = blob_of(chains, inputs, **counts)
    return Case(name, partial(_program, blob, inputs, 1), (inputs,))


def _slot(id: int) -> schema.TensorT:
    return schema.TensorT(id)


def _value(id: int) -> schema.IntT:
    return schema.IntT(value=schema.ValueT(id), isValue=True)


def _shown_value(id: int, out: int) -> schema.InstructionT:
    """Returns a node whose result is an integer, as float32."""
    number = schema.FloatT(value=schema.ValueT(id), isValue=True)
    return node("Full", out=_slot(out), shape=[], value=number, dtype=TO_FORMAT[torch.float32])


def _graphs() -> Iterator[Case]:
    size = node("SymSize", a=_slot(0), dim=-1, out=schema.ValueT(0))
    for name in ("AddInt", "SubtractInt", "MultiplyInt", "FloorDivideInt", "ModInt"):
        for number in (3, -3):
            # -7 of 5, and a number
            steps = [
                node("SubtractInt", a=_value(0), b=integer(12), out=schema.ValueT(1)),
                node(name, a=_value(1), b=integer(number), out=schema.ValueT(2)),
            ]
            chain = [size, *steps, _shown_value(2, 1)]
            yield _chains(f"{name} of -7 and {number}", [chain], FINITE, values=3)
    for x in (torch.tensor([-5]), torch.tensor(2**33 + 7), torch.tensor([3], dtype=torch.int32)):
        chain = [node("Item", x=_slot(0), out=schema.ValueT(0)), _shown_value(0, 1)]
        yield _chains(f"Item of {x.dtype} {x.tolist()}", [chain], x, values=1)
    for condition in (0, 1):
        branches = [
            [node("Neg", x=_slot(0), out=_slot(2))],
            [node("Square", x=_slot(0), out=_slot(2))],
        ]
        choice = [
            node("Item", x=_slot(1), out=schema.ValueT(0)),
            node("If", condition=_value(0), yes=1, no=2),
        ]
        inputs = (FINITE, torch.tensor([condition], dtype=torch.int32))
        yield _chains(f"If {condition}", [choice, *branches], *inputs, values=1)
    zeros = node("Full", out=_slot(3), shape=[integer(5)], value=schema.FloatT(), dtype=6)
    scan = node(
        "Scan",
        originals=[_slot(0)],
        sliced=[_slot(2)],
        outputs=[_slot(1)],
        carry=[_slot(3)],
        body=1,
        axis=0,
    )
    body = [
        node("Add", a=_slot(3), b=_slot(2), out=_slot(3)),
        node("IdCopy", x=_slot(3), out=_slot(1)),
    ]
    yield _chains("Scan of sums", [[zeros, scan], body], FINITE, temporaries=2)


def _numbered(cases: Iterable[Case]) -> Iterator[Case]:
    """Yields cases with different names."""
    counts = Counter[str]()
    for case in cases:
        counts[case.name] += 1
        count = counts[case.name]
        yield case._replace(name=f"{case.name}, {count}") if count > 1 else case


_SPECS: Final = (_elementwise, _reductions, _moves, _indexing, _layers)
CASES: Final = (
    *_numbered(_case(spec) for specs in _SPECS for spec in specs()),
    *_graphs(),
)
