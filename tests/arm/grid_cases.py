# SPDX-License-Identifier: Apache-2.0
"""The table of operators that compute or move elements: each with all of its types, and several shapes."""

from __future__ import annotations

from typing import Final

from delegatec_schemas.tosa_graph import NanMode

from tests.arm.grid import Bound, Row, Types, of

_FLOATS: Final = of("FP32 FP16 BF16")
_INTS: Final = of("INT8 INT16 INT32")
_WHOLE: Final = of("INT32")
_BOOL: Final = of("BOOL")
_FLOATS_8: Final = of("FP8E4M3 FP8E5M2")
_MOVED: Final = (*_BOOL, *_INTS, *_FLOATS)

_UNARY: Final = tuple(
    ([f"T[{sizes}]:{values}"], f"T[{sizes}]")
    for sizes, values in (("", "special"), ("2,3,4", "special"), ("40", "usual"), ("1,2,1,3,1,2", "positive"))
)
_WIDE: Final = ((["T[60]:full"], "T[60]"), (["T[]:full"], "T[]"))


def _binary(result: str, *values: str, extra: tuple[str, ...] = ()) -> tuple[tuple[list[str], str], ...]:
    shapes = (
        ("2,3,4", "2,3,4", "2,3,4"),
        ("2,1,4", "1,3,1", "2,3,4"),
        ("1,1,1,1,1", "2,1,2,1,3", "2,1,2,1,3"),
        ("", "", ""),
    )
    return tuple(
        ([f"T[{one}]:{first}", f"T[{other}]:{second}", *extra], f"{result}[{whole}]")
        for one, other, whole in shapes
        for first, second in (each.split("/") for each in values)
    )


NAN: Final = ({"nan_mode": NanMode.PROPAGATE}, {"nan_mode": NanMode.IGNORE})
_PROPAGATE: Final = NAN[:1]
_AXES: Final = tuple({"axis": axis} for axis in range(3))
_REDUCED: Final = ("1,3,4", "2,1,4", "2,3,1")


def _reduced(
    operators: str,
    types: Types,
    values: str,
    nan: bool = False,
    digits: int = 0,
    sums: bool = False,
) -> tuple[Row, ...]:
    return tuple(
        Row(
            operators,
            types,
            (([f"T[2,3,4]:{values}"], f"T[{_REDUCED[axis]}]"),),
            tuple({"axis": axis, **each} for each in (NAN if nan else ({},))),
            digits,
            sums,
        )
        for axis in range(3)
    )


ELEMENTWISE: Final = (
    Row("CEIL FLOOR", _FLOATS, _UNARY),
    Row("ABS", _FLOATS, _UNARY),
    Row("RECIPROCAL RSQRT", _FLOATS, _UNARY, digits=2),
    Row("ERF SIGMOID TANH EXP LOG SIN COS", _FLOATS, _UNARY, digits=4),
    Row("ABS", _WHOLE, ((["T[60]"], "T[60]"),)),
    Row("BITWISE_NOT", _INTS, _WIDE),
    Row("CLZ", _WHOLE, _WIDE),
    Row("LOGICAL_NOT", _BOOL, _WIDE),
    Row("NEGATE", _FLOATS, ((["T[2,3,4]:special", "=0:T", "=0:T"], "T[2,3,4]"),)),
    Row(
        "NEGATE",
        of("INT8"),
        ((["T[60]:full", "=3:T", "=-7:T"], "T[60]"), (["T[60]:full", "=-128:T", "=127:T"], "T[60]")),
    ),
    Row("NEGATE", of("INT16 INT32"), ((["T[60]", "=0:T", "=0:T"], "T[60]"),)),
    Row("IDENTITY", (*_MOVED, *_FLOATS_8), ((["T[2,3]"], "T[2,3]"),)),
    Row("IDENTITY", of("INT48"), ((["*T[2,3]:small"], "T[2,3]"),)),
    Row("ADD SUB", (*_WHOLE, *_FLOATS), _binary("T", "usual/usual")),
    Row("ADD SUB", _FLOATS, _binary("T", "special/special")),
    Row("MUL", _FLOATS, _binary("T", "special/special", "usual/usual", extra=("=0:INT8",))),
    Row("MUL", of("INT8 INT16"), _binary("INT32", "full/full", extra=("=0:INT8",))),
    Row("MUL", _WHOLE, _binary("T", "usual/usual", extra=("=0:INT8",))),
    Row("MUL", _WHOLE, _binary("T", "full/full", extra=("=31:INT8",))),
    Row("MUL", _WHOLE, _binary("T", "full/usual", extra=("=20:INT8",))),
    Row("POW", _FLOATS, _binary("T", "positive/usual"), digits=6),
    Row("INTDIV", _WHOLE, _binary("T", "full/nonzero")),
    Row("MAXIMUM MINIMUM", _FLOATS, _binary("T", "special/special"), NAN),
    Row("MAXIMUM MINIMUM", _WHOLE, _binary("T", "full/full"), _PROPAGATE),
    Row("BITWISE_AND BITWISE_OR BITWISE_XOR", _INTS, _binary("T", "full/full")),
    Row("LOGICAL_AND LOGICAL_OR LOGICAL_XOR", _BOOL, _binary("T", "usual/usual")),
    *(
        Row(
            "LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT",
            of(kind),
            ((["T[60]:full", f"T[60]:shift {bits}"], "T[60]"),),
        )
        for kind, bits in (("INT8", 8), ("INT16", 16), ("INT32", 32))
    ),
    *(
        Row(
            "ARITHMETIC_RIGHT_SHIFT",
            of(kind),
            ((["T[60]:full", f"T[60]:shift {bits}"], "T[60]"),),
            ({"round": False}, {"round": True}),
        )
        for kind, bits in (("INT8", 8), ("INT16", 16), ("INT32", 32))
    ),
    Row("EQUAL GREATER GREATER_EQUAL", _FLOATS, _binary("BOOL", "special/special", "small/small")),
    Row("EQUAL GREATER GREATER_EQUAL", _WHOLE, _binary("BOOL", "small/small", "full/full")),
    Row(
        "SELECT",
        _MOVED,
        (
            (["BOOL[2,3,4]", "T[2,3,4]", "T[2,3,4]"], "T[2,3,4]"),
            (["BOOL[2,1,1]", "T[1,3,1]", "T[1,1,4]"], "T[2,3,4]"),
            (["BOOL[]", "T[]", "T[]"], "T[]"),
        ),
    ),
    Row(
        "CLAMP",
        _FLOATS,
        _UNARY,
        tuple({"min_val": Bound(-1.5), "max_val": Bound(2.0), **nan} for nan in NAN),
    ),
    Row("CLAMP", of("INT8 INT16"), _WIDE, ({"min_val": Bound(-100), "max_val": Bound(57), **_PROPAGATE[0]},)),
    Row("TABLE", of("INT8"), ((["T[4,30]:full", "*INT8[256]:full"], "T[4,30]"),)),
    Row("TABLE", of("INT16"), ((["T[4,30]:full", "*INT16[513]:small"], "INT32[4,30]"),)),
)

MOVES: Final = (
    Row(
        "CONCAT",
        (*_MOVED, *_FLOATS_8),
        ((["T[2,3]", "T[2,1]", "T[2,4]"], "T[2,8]"), (["T[2,1]"], "T[2,1]")),
        ({"axis": 1},),
    ),
    Row(
        "PAD",
        (*_MOVED, *_FLOATS_8),
        (
            (["T[2,3]", "#1,0,0,2", "=1:T"], "T[3,5]"),
            (["T[1,2,1,2]", "#0,0,1,1,0,3,0,0", "=0:T"], "T[1,4,4,2]"),
        ),
    ),
    Row(
        "RESHAPE",
        (*_MOVED, *_FLOATS_8),
        (
            (["T[2,6]", "#3,1,4"], "T[3,1,4]"),
            (["T[1,1]", "#"], "T[]"),
            (["T[]", "#1,1,1,1,1,1"], "T[1,1,1,1,1,1]"),
        ),
    ),
    Row("REVERSE", (*_MOVED, *_FLOATS_8), ((["T[2,3,4]"], "T[2,3,4]"),), _AXES),
    Row(
        "SLICE",
        (*_MOVED, *_FLOATS_8),
        (
            (["T[4,5]", "#1,2", "#3,1"], "T[3,1]"),
            (["T[1,2,3,4,1,2]", "#0,1,0,2,0,1", "#1,1,3,2,1,1"], "T[1,1,3,2,1,1]"),
        ),
    ),
    Row(
        "TILE", (*_MOVED, *_FLOATS_8), ((["T[2,3]", "#2,3"], "T[4,9]"), (["T[1,2,1]", "#3,1,1"], "T[3,2,1]"))
    ),
    Row("TRANSPOSE", (*_MOVED, *_FLOATS_8), ((["T[2,3,4]"], "T[4,2,3]"),), ({"perms": [2, 0, 1]},)),
    Row(
        "TRANSPOSE",
        of("INT8 FP32"),
        ((["T[2,3,1,2,1,4]"], "T[4,1,2,1,3,2]"),),
        ({"perms": [5, 4, 3, 2, 1, 0]},),
    ),
    Row("GATHER", (*_INTS, *_FLOATS, *_FLOATS_8), ((["T[2,5,3]", "INT32[2,7]:index 5"], "T[2,7,3]"),)),
    Row(
        "SCATTER",
        (*_INTS, *_FLOATS, *_FLOATS_8),
        ((["T[2,5,3]", "INT32[2,4]:unique 5", "T[2,4,3]"], "T[2,5,3]"),),
    ),
)

REDUCTIONS: Final = (
    *_reduced("REDUCE_SUM", _WHOLE, "usual"),
    *_reduced("REDUCE_SUM", _FLOATS, "small"),
    *_reduced("REDUCE_SUM", _FLOATS, "usual", digits=3, sums=True),
    *_reduced("REDUCE_PRODUCT", _FLOATS, "usual", digits=3),
    *_reduced("REDUCE_SUM REDUCE_PRODUCT", _FLOATS, "special", digits=3),
    *_reduced("REDUCE_MAX REDUCE_MIN", _INTS, "full", True),
    *_reduced("REDUCE_MAX REDUCE_MIN", _FLOATS, "special", True),
    *_reduced("REDUCE_ALL REDUCE_ANY", _BOOL, "usual"),
    *(
        Row(
            "ARGMAX",
            of("INT8 INT16 FP32 FP16 BF16 FP8E4M3 FP8E5M2"),
            (([f"T[4,6,5]:{values}"], f"INT32[{sizes}]"),),
            tuple({"axis": axis, **nan} for nan in NAN),
        )
        for values in ("usual", "small")
        for axis, sizes in enumerate(("6,5", "4,5", "4,6"))
    ),
    *(
        Row(
            "ARGMAX",
            _FLOATS,
            ((["T[4,6,5]:special"], f"INT32[{sizes}]"),),
            tuple({"axis": axis, **nan} for nan in NAN),
        )
        for axis, sizes in enumerate(("6,5", "4,5", "4,6"))
    ),
)
