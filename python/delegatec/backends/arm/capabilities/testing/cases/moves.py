# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from delegatec.backends.arm.capabilities.testing import LARGE, LIMIT, NO, YES, Case, shaped


def moves() -> Iterator[Case]:
    """Yields cases of moves."""
    for dtype, verdicts in (("INT8", YES), ("INT16", YES), ("INT32", YES), ("BOOL", LARGE)):
        x = shaped(dtype, (1, 4, 5, 6))
        value = "*BOOL[1]" if dtype == "BOOL" else f"=3:{dtype}"
        yield Case(verdicts, "IDENTITY", (x,), x, {})
        yield Case(verdicts, "PAD", (x, "#0,0,1,1,2,2,0,0", value), shaped(dtype, (1, 6, 9, 6)), {})
        yield Case(verdicts, "RESHAPE", (x, "#4,30"), shaped(dtype, (4, 30)), {})
        yield Case(verdicts, "SLICE", (x, "#0,1,0,0", "#1,2,5,3"), shaped(dtype, (1, 2, 5, 3)), {})
        yield Case(verdicts, "TILE", (x, "#1,2,1,3"), shaped(dtype, (1, 8, 5, 18)), {})
        yield Case(verdicts, "CONCAT", (x, x), shaped(dtype, (1, 4, 5, 12)), {"axis": 3})
    yield Case(NO, "PAD", ("INT8[5]", "#1,2", "INT8[1]"), "INT8[8]", {})
    yield Case(NO, "PAD", ("INT8[]", "#", "=0:INT8"), "INT8[]", {})
    yield Case(NO, "IDENTITY", ("INT8[0, 4]",), "INT8[0, 4]", {})
    for name, operands in (("GATHER", ("INT32[1, 4]",)), ("SCATTER", ("INT32[1, 4]", "INT8[1, 4, 6]"))):
        result = "INT8[1, 4, 6]" if name == "GATHER" else "INT8[1, 10, 6]"
        yield Case(LARGE, name, ("INT8[1, 10, 6]", *operands), result, {})


def transposes() -> Iterator[Case]:
    """Yields cases of transposes."""

    def transpose(
        verdicts: tuple[str, str], shape: tuple[int, ...], order: tuple[int, ...], *dtypes: str
    ) -> Iterator[Case]:
        for dtype in dtypes:
            result = shaped(dtype, [shape[axis] for axis in order])
            yield Case(verdicts, "TRANSPOSE", (shaped(dtype, shape),), result, {"perms": list(order)})

    every, small = ("INT8", "INT16", "INT32"), ("INT8", "INT16")
    for order in itertools.permutations(range(4)):
        yield from transpose(YES, (2, 3, 4, 5), order, *every)
    yield from transpose(YES, (1, 2, 3, 2, 4, 5), (5, 3, 1, 0, 2, 4), *small)
    yield from transpose(LIMIT, (2, 3, 2, 4, 5), (4, 2, 1, 0, 3), "INT32")
    yield from transpose(LARGE, (2, 3), (1, 0), "BOOL")
    for shape, order in (
        ((70000, 2), (1, 0)),
        ((1, 2, 70000, 3), (0, 2, 1, 3)),
        ((1, 2, 3, 70000), (0, 3, 1, 2)),
    ):
        yield from transpose(LARGE, shape, order, *every)
    for shape, order in (
        ((65536, 3), (1, 0)),
        ((1, 256, 256, 3), (0, 3, 1, 2)),
        ((1, 3, 300, 300), (0, 2, 3, 1)),
    ):
        yield from transpose(YES, shape, order, *small)
    yield from transpose(YES, (2, 256, 256, 3), (0, 3, 1, 2), *small)
    yield from transpose(LARGE, (2, 256, 256, 3), (0, 3, 1, 2), "INT32")
    yield from transpose(LARGE, (2, 257, 257, 3), (0, 3, 1, 2), *every)
    yield from transpose(LARGE, (300, 300, 2, 3), (0, 1, 3, 2), *small)
    yield from transpose(LARGE, (2, 300, 2, 300, 2), (1, 0, 3, 2, 4), *small)
    yield from transpose(YES, (1, 2, 2, 16384), (0, 2, 1, 3), *every)
    yield from transpose(YES, (1, 2, 2, 16385), (0, 2, 1, 3), *small)
    yield from transpose(LARGE, (1, 2, 2, 16385), (0, 2, 1, 3), "INT32")
    yield from transpose(YES, (1, 2, 2, 40000), (0, 1, 3, 2), *every)
    yield from transpose(YES, (2, 2, 2, 32768), (0, 1, 2, 3), *every)
    yield from transpose(LIMIT, (1, 300, 300, 3), (0, 3, 1, 2), "INT32")
