# SPDX-License-Identifier: Apache-2.0
"""Mutable buffers: their memory and initial values."""

from __future__ import annotations

from delegatec.program.alignment import align
from delegatec.program.constants import ConstantPool
from delegatec.program.planning.memory_plan import ALIGNMENT


class State:
    """The buffers that the methods of a program write to.

    Attributes:
        size: size in bytes of the arena that methods share; 0 if they do not share any.
        initial: their initial values, deduplicated.
    """

    def __init__(self) -> None:
        self.size = 0
        self.initial = ConstantPool()
        self._offsets: dict[str, int] = {}

    def offset(self, name: str, size: int) -> int:
        """Returns the offset of a buffer in the arena in bytes: the same in all methods.

        Args:
            name: its fully qualified name.
            size: size in bytes.
        """
        if name not in self._offsets:
            self._offsets[name] = self.size
            self.size = align(self.size + size, ALIGNMENT)
        return self._offsets[name]
