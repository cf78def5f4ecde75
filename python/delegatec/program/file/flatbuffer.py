# SPDX-License-Identifier: Apache-2.0
"""Construction of FlatBuffer vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def vector(b: Any, offsets: Sequence[int]) -> int:
    """Writes a vector of tables or strings, by their offsets."""
    return numbers(b, offsets, 4, b.PrependUOffsetTRelative)


def ints(b: Any, items: Sequence[int]) -> int:
    """Writes a vector of 32-bit integers."""
    return numbers(b, items, 4, b.PrependInt32)


def numbers(b: Any, items: Sequence[Any], size: int, prepend: Callable[[Any], Any]) -> int:
    """Writes a vector of numbers.

    Args:
        b: the builder.
        items: the numbers.
        size: size of an item in bytes.
        prepend: the builder's method that writes an item.
    """
    b.StartVector(size, len(items), size)
    for item in reversed(items):
        prepend(item)
    return int(b.EndVector())
