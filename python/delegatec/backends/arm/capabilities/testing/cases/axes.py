# SPDX-License-Identifier: Apache-2.0
"""Operators along one axis."""

from __future__ import annotations

from collections.abc import Iterator

from delegatec.backends.arm.capabilities.testing import LARGE, LIMIT, YES, Case, shaped


def axes() -> Iterator[Case]:
    """Yields cases of axes."""

    def along(
        name: str, verdicts: tuple[str, str], shape: tuple[int, ...], axis: int, dtype: str = "INT8"
    ) -> Case:
        attributes = {"axis": axis} | (
            {"nan_mode": 1} if name in ("ARGMAX", "REDUCE_MAX", "REDUCE_MIN") else {}
        )
        kept = () if name == "ARGMAX" else (1,)
        result = shape if name == "REVERSE" else (*shape[:axis], *kept, *shape[axis + 1 :])
        out = shaped("INT32" if name == "ARGMAX" else dtype, result)
        return Case(verdicts, name, (shaped(dtype, shape),), out, attributes)

    arguments: list[tuple[tuple[int, ...], int, tuple[str, str]]] = [
        ((1, 4, 5, 127), 3, YES),
        ((1, 4, 5, 128), 3, LARGE),
        ((1, 4, 5, 6), 2, LARGE),
        ((2, 4, 5, 6), 3, LARGE),
        ((6,), 0, YES),
        ((4, 6), 1, YES),
        ((1, 1, 4, 5, 6), 4, LIMIT),
        ((1, 256, 256, 6), 3, YES),
        ((1, 256, 257, 6), 3, LIMIT),
    ]
    for shape, axis, verdicts in arguments:
        yield along("ARGMAX", verdicts, shape, axis)
    yield along("ARGMAX", LARGE, (1, 4, 5, 6), 3, "INT16")
    reversed_axes: list[tuple[tuple[int, ...], int, tuple[str, str]]] = [
        ((1, 4, 5, 6), 1, YES),
        ((1, 4, 5, 6), 2, YES),
        ((1, 4, 5, 6), 3, LARGE),
        ((1, 4, 5, 6), 0, LIMIT),
        ((2, 3, 4, 5), 2, YES),
        ((5,), 0, LARGE),
        ((4, 5), 0, YES),
        ((3, 4, 5), 0, YES),
    ]
    for shape, axis, verdicts in reversed_axes:
        yield along("REVERSE", verdicts, shape, axis)
    yield along("REVERSE", YES, (1, 4, 5, 6), 2, "INT16")
    yield along("REVERSE", LIMIT, (1, 4, 5, 6), 2, "INT32")
    yield along("REVERSE", LARGE, (1, 4, 5, 6), 2, "BOOL")
    sums: list[tuple[tuple[int, ...], int, tuple[str, str]]] = [
        ((1, 4, 5, 6), 3, YES),
        ((2, 3, 4, 5, 6), 2, YES),
        ((1, 2, 3, 2, 4, 5), 3, YES),
        ((65536, 2), 0, YES),
        ((65537, 2), 0, LARGE),
        ((2, 65536), 1, YES),
        ((2, 65537), 1, LIMIT),
        ((65537, 4), 1, YES),
        ((3, 4, 65537), 1, LARGE),
        ((65537, 4, 3), 1, LARGE),
        ((4, 3, 257, 256), 1, LARGE),
    ]
    for shape, axis, verdicts in sums:
        yield along("REDUCE_SUM", verdicts, shape, axis, "INT32")
    for name in ("REDUCE_MAX", "REDUCE_MIN"):
        yield along(name, YES, (2, 3, 4, 5, 6), 2)
        yield along(name, YES, (65537, 4, 3), 1)
        yield along(name, YES, (1, 4, 5, 6), 3, "INT16")
        yield along(name, LARGE, (1, 4, 5, 6), 3, "INT32")
    for name in ("REDUCE_ALL", "REDUCE_ANY"):
        yield along(name, LARGE, (1, 4, 5, 6), 3, "BOOL")
