# SPDX-License-Identifier: Apache-2.0
"""Planned memory that takes only as much of the machine's memory as the program uses."""

from __future__ import annotations

import mmap
import sys
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic

_BLOCK: Final = 1 << 16
# MAP_NORESERVE, which the module lacks before Python 3.13.
_NO_RESERVE: Final = 0x4000 if sys.platform == "linux" else 0


class Arena(mmap.mmap):
    """Zeroed memory of a declared size; ranges get their initial bytes when they are first claimed."""

    _fill: int
    _claimed: set[int]

    @staticmethod
    def of(size: int, fill: int) -> Arena:
        """Reserves memory.

        Args:
            size: in bytes; a file may declare any.
            fill: initial value of each byte.

        Raises:
            DelegatecError: DC505, the machine cannot address so much.
        """
        try:
            arena = Arena(-1, max(1, size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except (OSError, OverflowError, ValueError) as error:
            message = f"cannot reserve {size} bytes of planned memory"
            raise DelegatecError([Diagnostic(code="DC505", message=message)]) from error
        arena._fill, arena._claimed = fill, set()
        return arena

    def claim(self, start: int, end: int) -> None:
        """Fills the blocks of a range that was not claimed before."""
        if not self._fill:
            return
        for block in range(start // _BLOCK, -(-min(end, len(self)) // _BLOCK)):
            if block not in self._claimed:
                self._claimed.add(block)
                first = block * _BLOCK
                size = min(_BLOCK, len(self) - first)
                self[first : first + size] = bytes([self._fill]) * size
