# SPDX-License-Identifier: Apache-2.0
"""The table of layers and conversions: each with all of its types, and several shapes and attributes."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.tosa_graph import DType, ResizeMode, RoundingMode

from tests.arm.grid import Row, of
from tests.arm.grid_cases import NAN

_FLOATS: Final = of("FP32 FP16 BF16")
_FLOATS_8: Final = of("FP8E4M3 FP8E5M2")

_SUMS: Final = (
    {"T": "INT8", "W": "INT8", "R": "INT32", "S": "INT32", "Z": "3", "V": "0"},
    {"T": "INT16", "W": "INT8", "R": "INT48", "S": "INT48", "Z": "0", "V": "0"},
    {"T": "FP32", "W": "FP32", "R": "FP32", "S": "FP32", "Z": "0", "V": "0"},
    {"T": "FP16", "W": "FP16", "R": "FP16", "S": "FP32", "Z": "0", "V": "0"},
    {"T": "FP16", "W": "FP16", "R": "FP16", "S": "FP16", "Z": "0", "V": "0"},
    {"T": "BF16", "W": "BF16", "R": "BF16", "S": "FP32", "Z": "0", "V": "0"},
    {"T": "FP8E4M3", "W": "FP8E4M3", "R": "FP16", "S": "FP16", "Z": "0", "V": "0"},
    {"T": "FP8E5M2", "W": "FP8E5M2", "R": "FP16", "S": "FP16", "Z": "0", "V": "0"},
)
"""Types of convolutions: of the operand, the weight, the result, and the accumulator, and the zero points."""


def _layers(
    operator: str, source: str, weight: str, channels: int, *forms: tuple[str, dict[str, Any]]
) -> tuple[Row, ...]:
    """Returns rows of convolutions: small values have exact sums, so that their order does not matter."""
    return tuple(
        Row(
            operator,
            ({key: each for key, each in types.items() if key not in "ZV"},),
            (
                (
                    [
                        f"T[{source}]:small",
                        f"*W[{weight}]:small",
                        f"*R[{channels}]:small",
                        f"={types['Z']}:T",
                        f"={types['V']}:W",
                    ],
                    f"R[{result}]",
                ),
            ),
            ({**attributes, "acc_type": getattr(DType, types["S"])},),
        )
        for types in _SUMS
        for result, attributes in forms
    )


_POOLS: Final = (
    ("1,6,8,3", "1,3,4,3", [2, 2], [2, 2], [0, 0, 0, 0]),
    ("1,6,8,3", "1,6,8,3", [3, 3], [1, 1], [1, 1, 1, 1]),
    ("2,5,7,1", "2,3,2,1", [2, 4], [2, 3], [1, 0, 0, 0]),
    ("1,7,9,2", "1,1,1,2", [7, 9], [1, 1], [0, 0, 0, 0]),
)

LAYERS: Final = (
    *_layers(
        "CONV2D",
        "2,6,7,3",
        "4,3,2,3",
        4,
        ("2,4,6,4", {"pad": [0, 0, 0, 0], "stride": [1, 1], "dilation": [1, 1]}),
        ("2,3,2,4", {"pad": [1, 0, 0, 0], "stride": [2, 4], "dilation": [1, 2]}),
        ("2,4,7,4", {"pad": [1, 1, 1, 0], "stride": [1, 1], "dilation": [2, 1]}),
    ),
    *_layers(
        "CONV3D",
        "1,4,5,6,2",
        "3,2,3,2,2",
        3,
        ("1,3,3,5,3", {"pad": [0] * 6, "stride": [1, 1, 1], "dilation": [1, 1, 1]}),
        ("1,2,3,2,3", {"pad": [0, 0, 1, 1, 0, 0], "stride": [2, 2, 3], "dilation": [1, 1, 2]}),
    ),
    *_layers(
        "DEPTHWISE_CONV2D",
        "2,6,7,3",
        "3,2,3,2",
        6,
        ("2,4,6,6", {"pad": [0, 0, 0, 0], "stride": [1, 1], "dilation": [1, 1]}),
        ("2,3,2,6", {"pad": [1, 0, 0, 0], "stride": [2, 4], "dilation": [1, 2]}),
    ),
    *_layers(
        "TRANSPOSE_CONV2D",
        "2,3,4,3",
        "4,3,2,3",
        4,
        ("2,5,5,4", {"out_pad": [0, 0, 0, 0], "stride": [1, 1]}),
        ("2,6,12,4", {"out_pad": [-1, 0, 1, 0], "stride": [2, 3]}),
        ("2,7,11,4", {"out_pad": [-1, 1, 0, 0], "stride": [2, 3]}),
    ),
    *(
        Row(
            "MATMUL",
            ({"T": kind, "R": result},),
            (([f"T[2,3,5]:{values}", f"T[2,5,4]:{values}", f"={zero}:T", f"={-zero}:T"], "R[2,3,4]"),),
        )
        for kind, result, zero, values in (
            ("INT8", "INT32", 5, "full"),
            ("INT16", "INT48", 0, "full"),
            ("FP32", "FP32", 0, "small"),
            ("FP16", "FP16", 0, "small"),
            ("FP16", "FP32", 0, "small"),
            ("BF16", "FP32", 0, "small"),
            ("FP8E4M3", "FP16", 0, "small"),
            ("FP8E5M2", "FP16", 0, "small"),
        )
    ),
    *(
        Row(
            "MAX_POOL2D",
            types,
            (([f"T[{source}]:{values}"], f"T[{result}]"),),
            tuple({"kernel": kernel, "stride": stride, "pad": pad, **nan} for nan in NAN),
        )
        for types, values in ((of("INT8 INT16"), "full"), (_FLOATS, "special"), (_FLOATS_8, "usual"))
        for source, result, kernel, stride, pad in _POOLS
    ),
    *(
        Row(
            "AVG_POOL2D",
            of(kind),
            (([f"T[{source}]:{values}", f"={zero}:T", f"={zero // 2}:T"], f"T[{result}]"),),
            ({"kernel": kernel, "stride": stride, "pad": pad, "acc_type": getattr(DType, sums)},),
            digits,
            True,
        )
        for kind, zero, values, sums, digits in (
            ("INT8", 0, "full", "INT32", 0),
            ("INT8", 13, "full", "INT32", 0),
            ("INT16", 0, "full", "INT32", 0),
            ("FP32", 0, "usual", "FP32", 3),
            ("FP16", 0, "usual", "FP32", 2),
            ("BF16", 0, "usual", "FP32", 2),
            ("FP8E4M3", 0, "small", "FP16", 1),
            ("FP8E5M2", 0, "small", "FP16", 1),
        )
        for source, result, kernel, stride, pad in _POOLS
    ),
    *(
        Row(
            "RESIZE",
            ({"T": kind, "R": result},),
            (
                (["T[1,3,4,2]:full", "#2,1,2,1", "#0,0", "#0,0"], "R[1,5,7,2]"),
                (["T[1,3,4,2]:full", "#4,2,4,2", "#-1,-1", "#1,1"], "R[1,6,8,2]"),
                (["T[2,6,8,1]:full", "#2,4,6,8", "#0,2", "#-2,0"], "R[2,3,6,1]"),
                (["T[1,1,5,1]:full", "#1,1,8,3", "#0,-2", "#0,2"], "R[1,1,13,1]"),
            ),
            ({"mode": mode},),
            digits,
            True,
        )
        for kind, result, mode, digits in (
            ("INT8", "INT8", ResizeMode.NEAREST, 0),
            ("INT16", "INT16", ResizeMode.NEAREST, 0),
            ("INT8", "INT32", ResizeMode.BILINEAR, 0),
            ("INT16", "INT48", ResizeMode.BILINEAR, 0),
            *(
                (kind, kind, mode, 3 * (mode == ResizeMode.BILINEAR))
                for kind in ("FP32", "FP16", "BF16")
                for mode in (ResizeMode.NEAREST, ResizeMode.BILINEAR)
            ),
        )
    ),
)

_KINDS: Final = ("INT8", "INT16", "INT32")
_CASTS: Final = (
    *((a, b) for a in _KINDS for b in (*_KINDS, "BOOL") if a != b),
    *(("BOOL", a) for a in _KINDS),
    *((a, b) for a in _KINDS for b in ("FP32", "FP16", "BF16")),
    *((b, a) for a in _KINDS for b in ("FP32", "FP16", "BF16")),
    *(("FP16", "FP32"), ("FP32", "FP16"), ("FP32", "BF16"), ("BF16", "FP32")),
    *((a, b) for a in ("FP8E4M3", "FP8E5M2") for b in ("FP32", "FP16", "BF16")),
    *((b, a) for a in ("FP8E4M3", "FP8E5M2") for b in ("FP32", "FP16", "BF16")),
)


def _rescaled(kind: str, result: str) -> tuple[Row, ...]:
    zero, out = (7 * (each == "INT8") for each in (kind, result))
    types = ({"T": kind, "R": result},)
    tail = (f"={zero}:T", f"={-out}:R")
    is_constant = "*" * (kind == "INT48")
    short = ([f"{is_constant}T[40]", "=20005:INT16", "=21:INT8", *tail], "R[40]")
    lines = ([f"{is_constant}T[9,4]", "*INT16[4]:multiplier", "*INT8[4]:scale", *tail], "R[9,4]")
    whole = (["T[40]", "=1610612736:INT32", "=37:INT8", *tail], "R[40]")
    modes = [RoundingMode.SINGLE_ROUND]
    found = [
        Row("RESCALE", types, (short,), ({"scale32": False, "rounding_mode": RoundingMode.SINGLE_ROUND},))
    ]
    if kind != "INT48":
        modes.append(RoundingMode.DOUBLE_ROUND)
        found.append(
            Row("RESCALE", types, (whole,), tuple({"scale32": True, "rounding_mode": mode} for mode in modes))
        )
    found.append(
        Row(
            "RESCALE",
            types,
            (lines,),
            ({"scale32": False, "rounding_mode": RoundingMode.SINGLE_ROUND, "per_channel": True},),
        )
    )
    return tuple(found)


CONVERSIONS: Final = (
    *(
        Row(
            "CAST",
            ({"T": a, "R": b},),
            tuple(
                ([f"T[40]:{values}"], "R[40]")
                for values in (
                    ("full",) if a in _KINDS else ("usual", "extreme" if b == "INT32" else "special")
                )
            ),
        )
        for a, b in _CASTS
    ),
    *(row for kind in (*_KINDS, "INT48") for result in _KINDS for row in _rescaled(kind, result)),
    *(
        Row(
            "RESCALE",
            ({"T": a, "R": b},),
            ((["T[60]:full", "=1518500250:INT32", "=32:INT8", "=0:T", "=0:R"], "R[60]"),),
            ({"scale32": True, "rounding_mode": RoundingMode.SINGLE_ROUND, **unsigned},),
        )
        for a, b, unsigned in (
            ("INT8", "INT8", {"input_unsigned": True}),
            ("INT8", "INT8", {"output_unsigned": True}),
            ("INT16", "INT16", {"input_unsigned": True}),
            ("INT16", "INT8", {"output_unsigned": True}),
        )
    ),
)
