# SPDX-License-Identifier: Apache-2.0
"""Conversion of values between types, with torch's results; CAST alone has others."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType, NanMode

from delegatec.backends.arm.building.graph_builder import GraphBuilder, bound
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import BITS, FORMAT_FLOATS, FORMAT_FLOATS_8, STORED

_HALVES: Final = (DType.FP16, DType.BF16)
# The types that CAST converts from and to float8.
_BESIDE_8: Final = (*_HALVES, DType.FP32)
_MOST_E4M3: Final = torch.finfo(torch.float8_e4m3fn).max


def converted(b: GraphBuilder, value: Value, dtype: int) -> Value:
    """Returns a value in another type.

    Floating point is truncated to integers, and wider integers wrap. Bools are ones and zeros; other values
    are true unless zero.

    Args:
        b: the graph.
        value: to convert.
        dtype: the type in TOSA.
    """
    if value.dtype == dtype:
        return value
    if value.elements is not None and value.dtype in STORED and dtype in STORED:
        constant = torch.tensor(value.elements, dtype=STORED[value.dtype]).reshape(value.shape)
        return b.tensor(constant.to(STORED[dtype]))
    for narrow, other in ((value.dtype, dtype), (dtype, value.dtype)):
        if narrow in FORMAT_FLOATS_8 and other not in _BESIDE_8:
            return converted(b, converted(b, value, DType.FP16), dtype)
    is_float, to_float = value.dtype in FORMAT_FLOATS, dtype in FORMAT_FLOATS
    if value.dtype == DType.BOOL and to_float:
        one, zero = (b.scalar(scalar, dtype, len(value.shape)) for scalar in (1.0, 0.0))
        return b.emit("SELECT", value, one, zero, dtype=dtype, shape=value.shape)
    if dtype == DType.BOOL and is_float:
        zero = b.scalar(0.0, value.dtype, len(value.shape))
        return negated(b, b.emit("EQUAL", value, zero, dtype=dtype, shape=value.shape))
    if not (is_float or to_float or b.settings.specification.integer):
        return _by_floats(b, value, dtype)
    if is_float and not to_float:
        value = truncated(b, value)
    if dtype == DType.FP8E4M3:
        # torch saturates; CAST returns NaN
        low, high = (bound(scalar, value.dtype) for scalar in (-_MOST_E4M3, _MOST_E4M3))
        value = b.emit(
            "CLAMP", value, shape=value.shape, min_val=low, max_val=high, nan_mode=NanMode.PROPAGATE
        )
    if {value.dtype, dtype} == {*_HALVES}:
        value = b.cast(value, DType.FP32)
    return b.cast(value, dtype)


def _by_floats(b: GraphBuilder, value: Value, dtype: int) -> Value:
    """Returns an integer or a bool in another such type by FP32: CAST between them is in the profile INT."""
    if value.dtype == DType.INT32 and dtype != DType.BOOL:
        value = _wrapped(b, value, BITS[dtype])
    value = converted(b, value, DType.FP32)
    return converted(b, value, dtype) if dtype == DType.BOOL else b.cast(value, dtype)


def _wrapped(b: GraphBuilder, value: Value, bits: int) -> Value:
    """Returns the low bits of an INT32 as a signed integer: those below the sign, and the sign."""
    count, sign = (b.scalar(scalar, value.dtype, len(value.shape)) for scalar in (32 - bits, 31))
    high = b.emit("LOGICAL_LEFT_SHIFT", value, count, shape=value.shape)
    low = b.emit("LOGICAL_RIGHT_SHIFT", high, count, shape=value.shape)
    is_negative = b.emit("LOGICAL_RIGHT_SHIFT", high, sign, shape=value.shape)
    above = b.emit(
        "LOGICAL_LEFT_SHIFT", is_negative, b.scalar(bits, value.dtype, len(value.shape)), shape=value.shape
    )
    return b.emit("SUB", low, above, shape=value.shape)


def truncated(b: GraphBuilder, value: Value) -> Value:
    """Returns floating point rounded toward zero."""
    zero = b.scalar(0.0, value.dtype, len(value.shape))
    is_negative = b.emit("GREATER", zero, value, dtype=DType.BOOL, shape=value.shape)
    up, down = (b.emit(name, value, shape=value.shape) for name in ("CEIL", "FLOOR"))
    return b.emit("SELECT", is_negative, up, down, dtype=value.dtype, shape=value.shape)


def negated(b: GraphBuilder, value: Value) -> Value:
    """Returns the negation of a bool."""
    return b.emit("LOGICAL_NOT", value, shape=value.shape)


def widened(b: GraphBuilder, value: Value) -> Value:
    """Returns half precision as FP32, for sums and quotients."""
    return b.cast(value, DType.FP32) if value.dtype in _HALVES else value
