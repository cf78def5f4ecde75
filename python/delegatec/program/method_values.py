# SPDX-License-Identifier: Apache-2.0
"""The values of one method: numbers them, and stores equal numbers and lists once."""

from __future__ import annotations

from typing import Any

from delegatec.program.emitted import ListValue, Value


class MethodValues:
    """A growing list of values."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._shared: dict[Any, int] = {}

    def add(self, value: Value) -> int:
        """Index of a new value, which no other argument shares."""
        self.values.append(value)
        return len(self.values) - 1

    def share(self, value: Value) -> int:
        """Index of a value that is never written to."""
        # repr tells 1 from 1.0 and True, and -0.0 from 0.0, and makes nan equal to itself
        key = (type(value), repr(value))
        if key not in self._shared:
            self._shared[key] = self.add(value)
        return self._shared[key]

    def int_list(self, indices: list[int]) -> int:
        """Index of a list of integers, given the indices of its items."""
        return self.share(ListValue("IntList", tuple(indices)))
