# SPDX-License-Identifier: Apache-2.0
"""The mutable buffers of a model: where they lie, and what they start from."""

from __future__ import annotations

from delegatec.program.alignment import align
from delegatec.program.constants import ConstantPool
from delegatec.program.planning.memory_plan import ALIGNMENT


class State:
    """The buffers that the methods of a program write to.

    Attributes:
        size: bytes of the arena that methods share them in; 0 where they do not.
        initial: what they start from; equal bytes are stored once.
    """

    def __init__(self) -> None:
        self.size = 0
        self.initial = ConstantPool()
        self._offsets: dict[str, int] = {}

    def offset(self, name: str, size: int) -> int:
        """Offset in bytes of a buffer in the arena: the same for all methods.

        Args:
            name: its fully qualified name.
            size: in bytes.
        """
        if name not in self._offsets:
            self._offsets[name] = self.size
            self.size = align(self.size + size, ALIGNMENT)
        return self._offsets[name]
