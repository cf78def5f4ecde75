# SPDX-License-Identifier: Apache-2.0
"""Indices of a method's values."""

from __future__ import annotations

from typing import Any

from delegatec.program.emitted import ListValue, Value


class MethodValues:
    """A growing list of values."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._interned: dict[Any, int] = {}

    def add(self, value: Value) -> int:
        """Adds a value that no other argument shares, and returns its index."""
        self.values.append(value)
        return len(self.values) - 1

    def intern(self, value: Value) -> int:
        """Returns the index of an immutable value, which equal values share."""
        # repr distinguishes 1, 1.0 and True, and 0.0 and -0.0; nan equals nan
        key = (type(value), repr(value))
        if key not in self._interned:
            self._interned[key] = self.add(value)
        return self._interned[key]

    def int_list(self, indices: list[int]) -> int:
        """Adds a list of integers, given the indices of its items, and returns its index."""
        return self.intern(ListValue("IntList", tuple(indices)))
