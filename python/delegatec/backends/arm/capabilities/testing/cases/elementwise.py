# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators, tables and conversions."""

from __future__ import annotations

from collections.abc import Iterator

from delegatec.backends.arm.capabilities.testing import LARGE, LIMIT, NO, YES, Case, shaped


def elementwise() -> Iterator[Case]:
    """Yields cases of elementwise."""
    shape = (1, 4, 5, 6)
    x32, b = shaped("INT32", shape), shaped("BOOL", shape)
    for name in ("ADD", "SUB", "MAXIMUM", "MINIMUM", "INTDIV", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT"):
        nan = {"nan_mode": 1} if name in ("MAXIMUM", "MINIMUM") else {}
        verdicts = LARGE if name in ("INTDIV", "LOGICAL_RIGHT_SHIFT") else YES
        yield Case(verdicts, name, (x32, x32), x32, nan)
    for dtype in ("FP32", "FP16", "BF16"):
        x = shaped(dtype, shape)
        yield Case(NO, "ADD", (x, x), x, {})
    for dtype in ("INT8", "INT16"):
        x = shaped(dtype, shape)
        yield Case(LARGE, "LOGICAL_LEFT_SHIFT", (x, x), x, {})
        yield Case(LARGE, "ARITHMETIC_RIGHT_SHIFT", (x, x), x, {"round": True})
        yield Case(YES, "MUL", (x, x, "=0:INT8"), x32, {})
        yield Case(
            YES, "NEGATE", (x, f"=3:{dtype}" if dtype == "INT8" else f"=0:{dtype}", f"=0:{dtype}"), x, {}
        )
        width = 1 if dtype == "INT8" else 2
        yield Case(YES, "CLAMP", (x,), x, {"min_val": [0] * width, "max_val": [9] * width, "nan_mode": 1})
        yield Case(YES, "CAST", (x,), x32, {})
        yield Case(LIMIT, "CAST", (x32,), x, {})
        yield Case(LARGE, "CAST", (x,), b, {})
        yield Case(LARGE, "CAST", (b,), x, {})
    yield Case(YES, "CAST", (shaped("INT8", shape),), shaped("INT16", shape), {})
    yield Case(YES, "CAST", (shaped("INT16", shape),), shaped("INT8", shape), {})
    yield Case(YES, "MUL", (x32, x32, "=5:INT8"), x32, {})
    yield Case(YES, "ARITHMETIC_RIGHT_SHIFT", (x32, x32), x32, {"round": True})
    yield Case(LIMIT, "ARITHMETIC_RIGHT_SHIFT", (x32, x32), x32, {"round": False})
    for name in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR"):
        yield Case(LARGE, name, (x32, x32), x32, {})
    yield Case(LARGE, "BITWISE_NOT", (x32,), x32, {})
    for name in ("EQUAL", "GREATER", "GREATER_EQUAL"):
        yield Case(LARGE, name, (x32, x32), b, {})
    for name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"):
        yield Case(LARGE, name, (b, b), b, {})
    yield Case(LARGE, "LOGICAL_NOT", (b,), b, {})
    yield Case(LARGE, "SELECT", (b, x32, x32), x32, {})
    for name in ("ABS", "CLZ"):
        yield Case(YES, name, (x32,), x32, {})
    yield Case(YES, "TABLE", (shaped("INT8", shape), "*INT8[256]"), shaped("INT8", shape), {})
    yield Case(YES, "TABLE", (shaped("INT16", shape), "*INT16[513]"), x32, {})
    for sizes in ((), (5,), (2, 3, 4, 5, 6), (1, 2, 3, 2, 4, 5), (70000,), (65537, 1, 1, 2)):
        x = shaped("INT32", sizes)
        yield Case(YES, "ADD", (x, x), x, {})
    for left, right in (((3, 4, 5, 6), (1, 1, 5, 1)), ((2, 1, 4, 5, 6), (1, 3, 1, 5, 6))):
        result = [max(pair) for pair in zip(left, right, strict=True)]
        yield Case(YES, "ADD", (shaped("INT32", left), shaped("*INT32", right)), shaped("INT32", result), {})
