# SPDX-License-Identifier: Apache-2.0
"""The types that operators have in each profile and extension.

Source: TOSA 1.0; `tests/arm` compares the table with Arm's validator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.operation import REGIONS, Operation
from delegatec.backends.arm.dtypes import NAMES
from delegatec.backends.arm.specification import TosaSpecification

_TYPES: Final = {
    "bool": DType.BOOL,
    "i4": DType.INT4,
    "i8": DType.INT8,
    "i16": DType.INT16,
    "i32": DType.INT32,
    "i48": DType.INT48,
    "f16": DType.FP16,
    "bf16": DType.BF16,
    "e4m3": DType.FP8E4M3,
    "e5m2": DType.FP8E5M2,
    "f32": DType.FP32,
    "e2m3": DType.FP6E2M3,
    "e3m2": DType.FP6E3M2,
    "e2m1": DType.FP4E2M1,
    "ue8m0": DType.FP8UE8M0,
}
_CONSTANTS: Final = {DType.FP8E4M3: "fp8e4m3", DType.FP8E5M2: "fp8e5m2"}
"""Types whose constants need an extension that not all operators on them need."""


@dataclass(frozen=True)
class Support:
    """A combination of types, and the profiles and extensions that support it.

    Attributes:
        types: of the operands that the operator's row names, and of the result.
        needs: profiles or an extension, one of which must be in the specification; "a+b" if both must.
    """

    types: tuple[int, ...]
    needs: tuple[str, ...]


_ANY: Final = "int|fp"
_FLOATS: Final = "fp f16; fp f32; bf16 bf16"
_BITS: Final = "int i8; int i16; int i32"
_MOVED: Final = f"{_ANY} bool; {_BITS}; {_FLOATS}"
_FLOATS_8: Final = "fp8e4m3 e4m3; fp8e5m2 e5m2"
_SUMS_8: Final = "fp8e4m3 e4m3 e4m3 f16; fp8e5m2 e5m2 e5m2 f16"
_CONVOLUTION: Final = (
    "int i8 i8 i32; int4 i8 i4 i32; int16 i16 i8 i48; fp f16 f16 f16; fp f32 f32 f32; bf16 bf16 bf16 bf16; "
    + _SUMS_8
)
_INTEGERS: Final = ("i8", "i16", "i32")
_RESCALED: Final = "; ".join(f"int {a} {b}" for a in _INTEGERS for b in _INTEGERS)
_CASTS: Final = "; ".join(
    [
        *(f"int bool {a}; int {a} bool" for a in _INTEGERS),
        *(f"int {a} {b}" for a in _INTEGERS for b in _INTEGERS if a != b),
        *(f"fp {a} {b}; fp {b} {a}" for a in _INTEGERS for b in ("f16", "f32")),
        *(f"bf16 {a} bf16; bf16 bf16 {a}" for a in (*_INTEGERS, "f32")),
        "fp f16 f32; fp f32 f16",
        *(f"fp8{a} {a} {b}; fp8{a} {b} {a}" for a in ("e4m3", "e5m2") for b in ("f16", "f32")),
        *(f"bf16+fp8{a} {a} bf16; bf16+fp8{a} bf16 {a}" for a in ("e4m3", "e5m2")),
    ]
)

_BLOCKS: Final = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")

# Operators, the operands whose types count, and the combinations of these and the result: the
# support for each, and the types. A single type applies to all of them.
_ROWS: Final[tuple[tuple[str, tuple[int, ...], str], ...]] = (
    (
        "ARGMAX",
        (0,),
        "int i8 i32; int16 i16 i32; fp f16 i32; fp f32 i32; bf16 bf16 i32; "
        "fp8e4m3 e4m3 i32; fp8e5m2 e5m2 i32",
    ),
    ("AVG_POOL2D MAX_POOL2D", (0,), f"int i8; int16 i16; {_FLOATS}; {_FLOATS_8}"),
    ("CLAMP", (0,), f"int i8; int16 i16; {_FLOATS}"),
    ("CONV2D CONV3D DEPTHWISE_CONV2D TRANSPOSE_CONV2D", (0, 1), _CONVOLUTION),
    (
        "MATMUL",
        (0, 1),
        "int i8 i8 i32; int16 i16 i16 i48; fp f16 f16 f16; fp f16 f16 f32; fp f32 f32 f32; "
        "bf16 bf16 bf16 f32; " + _SUMS_8,
    ),
    ("FFT2D RFFT2D", (0,), "fft f32"),
    ("ERF SIGMOID TANH CEIL COS EXP FLOOR LOG RECIPROCAL RSQRT SIN", (0,), _FLOATS),
    ("POW", (0, 1), _FLOATS),
    ("ADD SUB", (0, 1), f"{_ANY} i32; {_FLOATS}"),
    ("MUL", (0, 1), f"int i8 i8 i32; int i16 i16 i32; {_ANY} i32; {_FLOATS}"),
    ("INTDIV", (0, 1), f"{_ANY} i32"),
    ("ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR", (0, 1), _BITS),
    ("BITWISE_NOT", (0,), _BITS),
    ("LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT", (0, 1), f"{_ANY} i8; {_ANY} i16; {_ANY} i32"),
    ("LOGICAL_AND LOGICAL_OR LOGICAL_XOR", (0, 1), f"{_ANY} bool"),
    ("LOGICAL_NOT REDUCE_ALL REDUCE_ANY", (0,), f"{_ANY} bool"),
    ("MAXIMUM MINIMUM", (0, 1), f"int i32; {_FLOATS}"),
    ("TABLE", (0, 1), "int i8; int16 i16 i16 i32"),
    ("ABS REDUCE_SUM", (0,), f"int i32; {_FLOATS}"),
    ("CLZ", (0,), "int i32"),
    ("NEGATE REDUCE_MAX REDUCE_MIN", (0,), f"{_BITS}; {_FLOATS}"),
    ("REDUCE_PRODUCT", (0,), _FLOATS),
    (
        "EQUAL GREATER GREATER_EQUAL",
        (0, 1),
        "int i32 i32 bool; fp f16 f16 bool; fp f32 f32 bool; bf16 bf16 bf16 bool",
    ),
    ("SELECT", (1, 2), _MOVED),
    ("CONCAT", (0,), f"{_ANY} bool; int i8; int16 i16; int i32; {_FLOATS}; {_FLOATS_8}"),
    ("PAD RESHAPE REVERSE SLICE TILE TRANSPOSE", (0,), f"{_MOVED}; {_FLOATS_8}"),
    (
        "IDENTITY",
        (0,),
        f"{_ANY} bool; {_ANY} i8; {_ANY} i16; {_ANY} i32; int16 i48; int4 i4; {_FLOATS}; {_FLOATS_8}",
    ),
    ("GATHER", (0,), f"{_BITS}; {_FLOATS}; {_FLOATS_8}"),
    ("SCATTER", (0, 2), f"{_BITS}; {_FLOATS}; {_FLOATS_8}"),
    ("RESIZE", (0,), f"int i8; int i8 i32; int16 i16; int16 i16 i48; {_FLOATS}"),
    ("CAST", (0,), _CASTS),
    ("RESCALE", (0,), f"{_RESCALED}; " + "; ".join(f"int16 i48 {a}" for a in _INTEGERS)),
    # The draft of 1.1.
    (
        "CAST_TO_BLOCK_SCALED",
        (0,),
        "; ".join(f"mxfp {a} {b}" for a in ("f32", "f16", "bf16") for b in _BLOCKS),
    ),
    ("MATMUL_T_BLOCK_SCALED", (0, 1, 2, 3), "; ".join(f"mxfp {a} ue8m0 {a} ue8m0 f32" for a in _BLOCKS)),
    (
        "CONV2D_BLOCK_SCALED",
        (0, 1, 2, 3, 4),
        "; ".join(f"mxfp_conv {a} ue8m0 {a} ue8m0 f32 f32" for a in _BLOCKS),
    ),
)


def _supports(text: str, count: int) -> Iterable[Support]:
    for each in text.split(";"):
        needs, *types = each.split()
        expanded = types * count if len(types) == 1 else types
        assert len(expanded) == count, each
        yield Support(tuple(_TYPES[name] for name in expanded), tuple(needs.split("|")))


TYPES: Final[Mapping[str, tuple[tuple[int, ...], tuple[Support, ...]]]] = {
    name: (operands, tuple(_supports(text, len(operands) + 1)))
    for names, operands, text in _ROWS
    for name in names.split()
}
"""Operator -> the operands whose types count, and the combinations."""


def type_problem(operation: Operation, specification: TosaSpecification) -> str | None:
    """Returns why a specification does not have an operator for the types of its operands and result."""
    if operation.name in REGIONS:
        return _control_flow(operation, specification)
    if operation.name not in TYPES:
        return f"TOSA {specification.version[0]}.{specification.version[1]} has no operator {operation.name}"
    operands, supports = TYPES[operation.name]
    types = (*(operation.inputs[index].dtype for index in operands), operation.outputs[0].dtype)
    needed = [each.needs for each in supports if each.types == types]
    has = {*specification.extensions}
    has |= {name for name, is_in in (("int", specification.integer), ("fp", specification.floating)) if is_in}
    if any(has.issuperset(each.split("+")) for needs in needed for each in needs):
        return _constant_problem(operation, specification)
    shown = f"{operation.name} of {' and '.join(dict.fromkeys(NAMES[each] for each in types))}"
    if not needed:
        return f"{shown}: TOSA has none"
    return f"{shown} needs {_shown(needed[0])}, which {specification} does not include"


def _control_flow(operation: Operation, specification: TosaSpecification) -> str | None:
    """Returns why a specification does not have control flow, or not for these operands and results."""
    if "cf" not in specification.extensions:
        return f"{operation.name} needs the extension cf, which {specification} does not include"
    for value in (*operation.inputs, *operation.outputs):
        copied = Operation("IDENTITY", (value,), (value,), {})
        if (found := type_problem(copied, specification)) is not None:
            return found.replace("IDENTITY", operation.name)
    return None


def _constant_problem(operation: Operation, specification: TosaSpecification) -> str | None:
    for value in operation.inputs:
        needed = _CONSTANTS.get(value.dtype) if value.is_constant else None
        if needed is not None and needed not in specification.extensions:
            shown = f"CONST of {NAMES[value.dtype]}"
            return f"{shown} needs the extension {needed}, which {specification} does not include"
    return None


def _shown(needs: Iterable[str]) -> str:
    profiles = " or ".join(each.upper() for each in needs if each in ("int", "fp"))
    return (
        f"the profile {profiles}" if profiles else f"the extension {' or '.join(needs).replace('+', ' and ')}"
    )
