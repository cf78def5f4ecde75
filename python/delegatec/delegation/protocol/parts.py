# SPDX-License-Identifier: Apache-2.0
"""Parts of a blob: bytes in memory, and bytes computed while they are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final

from delegatec.delegation.faults import blamed_on, wrong_result

# The chunk size of computed bytes: a chunk stays in the CPU's cache until it is written.
_PIECE: Final = 256 * 1024


class ComputedBytes(ABC):
    """Bytes computed on demand, such as weights converted to another dtype.

    They are never in memory all at once, and deterministic. Errors are raised before an object is made: it
    may be read while a file is half written.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of bytes."""

    @abstractmethod
    def __getitem__(self, place: slice, /) -> bytes | memoryview:
        """Returns a contiguous range of them.

        Args:
            place: start and end as in any sequence; no step.
        """


Part = bytes | memoryview | ComputedBytes
"""A byte sequence of a blob."""


def pieces(part: Part) -> Iterator[bytes | memoryview]:
    """Yields the bytes of a part in order: computed ones in chunks, others at once."""
    if not isinstance(part, ComputedBytes):
        yield part
        return
    for start in range(0, len(part), _PIECE):
        yield read(part, start, start + _PIECE)


def read(part: Part, start: int, end: int) -> bytes | memoryview:
    """Some bytes of a part.

    Raises:
        DelegatecError: DC410, DC411 for computed bytes of a plug-in that raise, or are too few or too many.
    """
    if not isinstance(part, ComputedBytes):
        return part[start:end]
    what = f"{type(part).__qualname__} in a blob"
    with blamed_on(part, what):
        found = part[start:end]
    wanted = min(end, len(part)) - start
    if len(found) != wanted:
        raise wrong_result(what, f"{len(found)} bytes", f"{wanted} bytes, from {start} on")
    return found


def join(parts: Iterable[Part]) -> bytes:
    """Returns a concatenated copy of all parts."""
    return b"".join(piece for part in parts for piece in pieces(part))
