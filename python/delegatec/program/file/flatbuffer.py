# SPDX-License-Identifier: Apache-2.0
"""Construction of FlatBuffer vectors."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any


def vector(b: Any, offsets: Sequence[int]) -> int:
    """Writes a vector of tables or strings, by their offsets."""
    end = b.StartVector(4, len(offsets), 4) + 4 * len(offsets)
    # each is stored as the distance from its own position
    return _fill(b, [end - 4 * index - offset for index, offset in enumerate(offsets)], "I")


def ints(b: Any, items: Sequence[int]) -> int:
    """Writes a vector of 32-bit integers."""
    return scalars(b, items, "i")


def scalars(b: Any, items: Sequence[Any], code: str) -> int:
    """Writes a vector of scalars, all at once.

    Args:
        b: the builder.
        items: the scalars.
        code: the code of their type in the module `struct`.
    """
    size = struct.calcsize(f"<{code}")
    b.StartVector(size, len(items), size)
    return _fill(b, items, code)


def _fill(b: Any, items: Sequence[Any], code: str) -> int:
    data = struct.pack(f"<{len(items)}{code}", *items)
    # the builder has reserved the space, and fills its buffer from the end
    b.head = start = b.Head() - len(data)
    b.Bytes[start : start + len(data)] = data
    return int(b.EndVector())
