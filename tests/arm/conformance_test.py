# SPDX-License-Identifier: Apache-2.0
"""Our tables of types agree with Arm's validator: operators with each type, in several specifications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from delegatec_schemas.tosa_graph import DType, NanMode

from delegatec.backends.arm.blob import write_blob
from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.conformance.problem import problem
from delegatec.backends.arm.conformance.types import TYPES
from delegatec.backends.arm.dtypes import BITS
from delegatec.backends.arm.settings import Settings
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.delegation.protocol.parts import join
from tests.arm.tosa_tools import InvalidGraphError, check

SPECIFICATIONS: Final = ("INT", "FP", "INT+int16", "INT+int4", "FP+bf16", "INT+FP")
NAMES: Final = ("BOOL", "INT8", "INT16", "INT32", "INT48", "FP16", "BF16", "FP32")
KINDS: Final = {name: getattr(DType, name) for name in NAMES}
SHAPE: Final = (1, 4, 4, 2)
ROW: Final = (1, 4, 4, 1)
_NAN: Final = {"nan_mode": NanMode.PROPAGATE}
_ZERO: Final = list(bytes(8))
_WIDER: Final = {"INT8": "INT32", "INT16": "INT48"}

# operator -> number of operands of one type, type of the result if it differs, its shape, attributes
_SIMPLE: Final[dict[str, tuple[int, str, tuple[int, ...], dict[str, Any]]]] = {
    **dict.fromkeys(("ERF", "SIGMOID", "TANH", "CEIL", "COS", "EXP", "FLOOR", "LOG"), (1, "", SHAPE, {})),
    **dict.fromkeys(("RECIPROCAL", "RSQRT", "SIN", "ABS", "BITWISE_NOT", "CLZ"), (1, "", SHAPE, {})),
    **dict.fromkeys(("LOGICAL_NOT", "IDENTITY"), (1, "", SHAPE, {})),
    **dict.fromkeys(("ADD", "SUB", "POW", "INTDIV", "BITWISE_AND", "BITWISE_OR"), (2, "", SHAPE, {})),
    **dict.fromkeys(("BITWISE_XOR", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"), (2, "", SHAPE, {})),
    **dict.fromkeys(("LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT"), (2, "", SHAPE, {})),
    "ARITHMETIC_RIGHT_SHIFT": (2, "", SHAPE, {"round": False}),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), (2, "", SHAPE, _NAN)),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL"), (2, "BOOL", SHAPE, {})),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY", "REDUCE_PRODUCT", "REDUCE_SUM"), (1, "", ROW, {"axis": 3})),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), (1, "", ROW, {"axis": 3, **_NAN})),
    "ARGMAX": (1, "INT32", (1, 4, 4), {"axis": 3, **_NAN}),
    "CONCAT": (2, "", (1, 4, 4, 4), {"axis": 3}),
    "REVERSE": (1, "", SHAPE, {"axis": 1}),
    "TRANSPOSE": (1, "", (1, 2, 4, 4), {"perms": [0, 3, 1, 2]}),
    "MAX_POOL2D": (1, "", (1, 2, 2, 2), {"kernel": [2, 2], "stride": [2, 2], "pad": [0] * 4, **_NAN}),
}


def _input(b: GraphBuilder, name: str, shape: tuple[int, ...] = SHAPE) -> Value:
    value = Value(f"x{len(b.inputs)}", KINDS[name], shape)
    b.inputs.append(value)
    return value


def _zeros(b: GraphBuilder, name: str, shape: tuple[int, ...] = (1,)) -> Value:
    count = 1
    for size in shape:
        count *= size
    data = bytes(-(-count * BITS[KINDS[name]] // 8))
    return Value(f"zeros.{name}.{shape}", KINDS[name], shape, data, (0,) * count, True)


def _emit(b: GraphBuilder, operator: str, kind: str) -> Value | None:
    """Emits an operator on operands of a type; returns its result, None if the test has no form for it."""
    if operator in _SIMPLE:
        count, result, shape, attributes = _SIMPLE[operator]
        operands = [_input(b, kind) for _ in range(count)]
        return b.emit(operator, *operands, dtype=KINDS[result or kind], shape=shape, **attributes)
    wide = KINDS[_WIDER.get(kind, kind)]
    if operator == "MUL":
        result = KINDS["INT32"] if kind in ("INT8", "INT16") else KINDS[kind]
        operands = [_input(b, kind), _input(b, kind), _zeros(b, "INT8")]
        return b.emit(operator, *operands, dtype=result, shape=SHAPE)
    if operator == "NEGATE":
        return b.emit(operator, _input(b, kind), _zeros(b, kind), _zeros(b, kind), shape=SHAPE)
    if operator == "SELECT":
        operands = [_input(b, "BOOL"), _input(b, kind), _input(b, kind)]
        return b.emit(operator, *operands, dtype=KINDS[kind], shape=SHAPE)
    if operator == "CLAMP":
        bound = _ZERO[: BITS[KINDS[kind]] // 8]
        return b.emit(operator, _input(b, kind), shape=SHAPE, min_val=bound, max_val=bound, **_NAN)
    if operator == "PAD":
        return b.emit(
            operator, _input(b, kind), b.shape([0, 0, 1, 0, 0, 0, 0, 0]), _zeros(b, kind), shape=(1, 5, 4, 2)
        )
    if operator == "RESHAPE":
        return b.emit(operator, _input(b, kind), b.shape([4, 8]), shape=(4, 8))
    if operator == "SLICE":
        return b.emit(operator, _input(b, kind), b.shape([0] * 4), b.shape([1, 2, 2, 2]), shape=(1, 2, 2, 2))
    if operator == "TILE":
        return b.emit(operator, _input(b, kind), b.shape([1, 2, 1, 1]), shape=(1, 8, 4, 2))
    if operator == "GATHER":
        return b.emit(operator, _input(b, kind, (1, 4, 4)), _input(b, "INT32", (1, 3)), shape=(1, 3, 4))
    if operator == "SCATTER":
        operands = [_input(b, kind, (1, 4, 4)), _input(b, "INT32", (1, 3)), _input(b, kind, (1, 3, 4))]
        return b.emit(operator, *operands, shape=(1, 4, 4))
    if operator == "MATMUL":
        operands = [_input(b, kind, (1, 4, 2)), _input(b, kind, (1, 2, 3)), _zeros(b, kind), _zeros(b, kind)]
        result = KINDS["FP32"] if kind == "BF16" else wide
        return b.emit(operator, *operands, dtype=result, shape=(1, 4, 3))
    if operator == "CONV2D":
        weight = "INT8" if kind == "INT16" else kind
        result = _WIDER.get(kind, kind)
        operands = [
            _input(b, kind),
            _zeros(b, weight, (3, 2, 2, 2)),
            _zeros(b, result, (3,)),
            _zeros(b, kind),
            _zeros(b, weight),
        ]
        window = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
        sums = KINDS["FP32"] if kind in ("FP16", "BF16") else wide
        return b.emit(operator, *operands, dtype=wide, shape=(1, 3, 3, 3), acc_type=sums, **window)
    return None


def _conversions(b: GraphBuilder, operator: str, kind: str, result: str) -> Value:
    if operator == "CAST":
        return b.emit(operator, _input(b, kind), dtype=KINDS[result], shape=SHAPE)
    narrow = kind == "INT48"
    operands = [
        _input(b, kind),
        _zeros(b, "INT16" if narrow else "INT32"),
        _zeros(b, "INT8"),
        _zeros(b, kind),
        _zeros(b, result),
    ]
    return b.emit(operator, *operands, dtype=KINDS[result], shape=SHAPE, scale32=not narrow, rounding_mode=1)


def _graphs(specification: TosaSpecification) -> Iterator[tuple[str, GraphBuilder, Value]]:
    for operator in TYPES:
        for kind in NAMES:
            b = GraphBuilder(Settings(specification))
            value = _emit(b, operator, kind)
            if value is not None:
                yield f"{operator} of {kind}", b, value
            for result in NAMES if operator in ("CAST", "RESCALE") else ():
                if (operator, kind) != ("CAST", result):
                    b = GraphBuilder(Settings(specification))
                    yield f"{operator} of {kind} to {result}", b, _conversions(b, operator, kind, result)


@pytest.mark.parametrize("text", SPECIFICATIONS)
def test_types(text: str) -> None:
    """A third of the graphs in each specification: the tables have no other dependence on it."""
    specification = TosaSpecification.parse(f"TOSA-1.0+{text}")
    part = SPECIFICATIONS.index(text) % 3
    seen: set[bool] = set()
    for name, b, value in list(_graphs(specification))[part::3]:
        b.outputs.append(value)
        ours = problem(b.operations[-1], specification)
        try:
            check(join(write_blob(b)), specification)
            theirs = ""
        except InvalidGraphError as error:
            theirs = str(error)
        assert (ours is None) == (not theirs), f"{name}: {ours!r}; the validator: {theirs[-300:]}"
        seen.add(not theirs)
    assert seen == {True, False}
