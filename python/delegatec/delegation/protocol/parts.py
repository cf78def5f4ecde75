# SPDX-License-Identifier: Apache-2.0
"""Parts of a blob: bytes that are there, and bytes that are computed while they are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final

from delegatec.delegation.faults import blamed_on, wrong_result

# Computed bytes are asked for this many at a time: they stay in a processor's cache until they are written.
_PIECE: Final = 256 * 1024


class ComputedBytes(ABC):
    """Bytes that are made whenever someone asks for them, such as weights converted to another dtype.

    They are never in memory all at once, and are the same each time. Whatever can be wrong with them is found
    before there is an object of this class: it may be asked while a file is half written.
    """

    @abstractmethod
    def __len__(self) -> int:
        """How many bytes there are."""

    @abstractmethod
    def __getitem__(self, place: slice, /) -> bytes | memoryview:
        """Some of them, contiguous.

        Args:
            place: start and end as of any sequence; no step.
        """


Part = bytes | memoryview | ComputedBytes
"""A run of bytes of a blob."""


def pieces(part: Part) -> Iterator[bytes | memoryview]:
    """The bytes of a part in order: at once where they are there, else some at a time."""
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
    """All parts in one piece: a copy."""
    return b"".join(piece for part in parts for piece in pieces(part))
