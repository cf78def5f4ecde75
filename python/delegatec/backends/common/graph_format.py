# SPDX-License-Identifier: Apache-2.0
"""Blobs whose graph is a FlatBuffer: shared parts of their writers, readers and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import flatbuffers

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import shortened
from delegatec.flatbuffer import unpack

GraphT = TypeVar("GraphT")

_MOST_NAMED: Final = 8
"""The maximum number of problems of a blob in a message."""
_LONGEST: Final = 200
"""The maximum number of characters of a problem; a name in a damaged blob may have thousands."""


class GraphFormat(Generic[GraphT]):
    """The FlatBuffer of a backend's blobs.

    Args:
        backend: the backend's id, for messages.
        graph: the class of its root table, unpacked.
        identifier: the FlatBuffer's file identifier; empty if it has none.
        fill: replaces absent lists of an unpacked graph by empty ones.
        problems: yields all problems of such a graph, given the number of bytes after the FlatBuffer.
    """

    def __init__(
        self,
        backend: str,
        graph: type[GraphT],
        identifier: bytes,
        fill: Callable[[GraphT], None] = lambda _: None,
        problems: Callable[[GraphT, int], Iterable[str]] = lambda *_: (),
    ) -> None:
        self._backend = backend
        self._graph = graph
        self._fill = fill
        self._problems = problems
        self.identifier: Final = identifier

    def check_graph(self, graph: GraphT, segment: int = 0) -> None:
        """Checks an unpacked graph: one that was read, or one that is about to be written.

        Writers check the tables instead of reading their FlatBuffer, which takes four times as long.

        Args:
            graph: the graph; absent lists become empty.
            segment: number of bytes after the FlatBuffer.

        Raises:
            DelegatecError: DC407, with its problems.
        """
        self._fill(graph)
        self.check(self._problems(graph, segment))

    def pack(self, graph: Any) -> bytes:
        """Returns the FlatBuffer of a graph."""
        builder = flatbuffers.Builder(1024)
        builder.Finish(graph.Pack(builder), file_identifier=self.identifier or None)
        return bytes(builder.Output())

    def unpack(self, flatbuffer: memoryview) -> GraphT:
        """Returns the graph of an untrusted FlatBuffer; everything in it is in bounds.

        Raises:
            DelegatecError: DC407.
        """
        found = bytes(flatbuffer[4:8])
        if self.identifier and found != self.identifier:
            raise self.damaged(f"its FlatBuffer's identifier is {found!r}, not {self.identifier!r}")
        try:
            graph: GraphT = unpack(self._graph, flatbuffer)
        except ValueError as error:
            raise self.damaged(f"its FlatBuffer points out of bounds ({error})") from error
        return graph

    def check(self, problems: Iterable[str]) -> None:
        """Raises `damaged` if there are problems."""
        found = list(problems)
        if found:
            raise self.damaged(*found)

    def damaged(self, *problems: str) -> DelegatecError:
        """Returns DC407 with the first problems of a blob."""
        more = len(problems) - _MOST_NAMED
        named = [shortened(problem, _LONGEST) for problem in problems[:_MOST_NAMED]]
        shown = "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])
        return DelegatecError([Diagnostic("DC407", f"damaged blob of {self._backend}: {shown}")])


def fill_absent(owner: Any, *fields: str) -> None:
    """Replaces absent lists of an unpacked table by empty ones."""
    for name in fields:
        if getattr(owner, name) is None:
            setattr(owner, name, [])


def unknown_ids(what: str, ids: Iterable[int], count: int, least: int = 0) -> Iterator[str]:
    """Yields a problem for each id that no value has.

    Args:
        what: the owner of the ids and a verb, such as "node 3 uses".
        ids: the ids.
        count: number of values.
        least: the lowest id; -1 if it means an absent operand.
    """
    for id in ids:
        if not least <= id < count:
            yield f"{what} id {id}, but there are {count} values"
