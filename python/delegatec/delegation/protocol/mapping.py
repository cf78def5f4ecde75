# SPDX-License-Identifier: Apache-2.0
"""The debug map of a delegate: from its runtime's instructions to nodes of the program.

Names and semantics are those of ExecuTorch 1.4.1 (`executorch.exir.backend.utils`, `DelegateMappingBuilder`);
`tests/peer/mapping_test.py` compares the two. Stricter here: an identifier that is neither int nor str, int
and str identifiers in one map (they become keys of one JSON object), and a handle that is not a positive
integer are rejected.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Mapping

from torch.fx import Node

from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation

DebugHandleMap = dict[int | str, tuple[int, ...]]
"""The backend's identifier of an instruction -> debug handles of the nodes it computes, sorted."""


class DelegateMappingBuilder:
    """Collects the debug map of one delegate, one entry per instruction.

    Misuse raises `DelegatecError` DC420 with the calling line of the backend, so that users can report the
    bug. A rejected entry changes nothing, and does not consume a generated identifier.

    Args:
        generated_identifiers: whether identifiers are 0, 1, 2, ... in order of insertion. Otherwise each
            entry has an identifier of the backend.
    """

    def __init__(self, generated_identifiers: bool = False) -> None:
        self._generated = generated_identifiers
        self._map: DebugHandleMap = {}

    def insert_delegate_mapping_entry(
        self,
        nodes: Node | Iterable[Node] | None = None,
        handles: int | Iterable[int | None] | None = None,
        identifier: int | str | None = None,
    ) -> int | str:
        """Adds the nodes that one instruction of the delegate computes.

        Args:
            nodes: the node or nodes, whose debug handles are recorded; those without one are skipped.
            handles: instead of nodes, the debug handle or handles; None among them is skipped.
            identifier: of the instruction in the backend's runtime; absent if identifiers are generated.

        Returns:
            The identifier of the entry.

        Raises:
            DelegatecError: DC420; the identifier is unexpected, missing, of the wrong type or duplicate; not
                exactly one of `nodes` and `handles` is given; no debug handle is left; a handle is not a
                positive integer.
        """
        key = self._identifier(identifier)
        if (nodes is None) == (handles is None):
            raise _misuse(
                f"entry {key!r} has {'neither nodes nor' if nodes is None else 'both nodes and'} handles",
                "either nodes or handles",
            )
        given = _handles_of(nodes) if nodes is not None else _as_given(handles)
        found = [handle for handle in given if handle is not None]
        wrong = [handle for handle in found if type(handle) is not int or handle < 1]
        if wrong:
            raise _misuse(
                f"{wrong[0]!r} is not a debug handle", 'positive integers, as in node.meta["debug_handle"]'
            )
        if not found:
            raise _misuse(
                f"entry {key!r} has no debug handle", "at least one, of a node of the partition or by itself"
            )
        self._map[key] = tuple(sorted(set(found)))
        return key

    def get_delegate_mapping(self) -> DebugHandleMap:
        """Returns a copy of the map: identifier -> sorted, unique debug handles; in order of insertion."""
        return dict(self._map)

    def _identifier(self, given: int | str | None) -> int | str:
        if self._generated:
            if given is not None:
                raise _misuse(f"identifier {given!r} is given, but they are generated", "no identifier")
            return len(self._map)
        if type(given) not in (int, str) or given is None:
            raise _misuse(
                f"identifier {given!r} is not an int or a str", "the backend's id of the instruction"
            )
        if given in self._map:
            raise _misuse(f"identifier {given!r} already has an entry", "one entry per identifier")
        if self._map and type(given) is not type(next(iter(self._map))):
            raise _misuse(
                f"identifier {given!r} is a {type(given).__name__}, unlike those before it",
                "all identifiers int, or all str",
            )
        return given


def debug_map_of(origins: Iterable[Iterable[Node]]) -> DebugHandleMap:
    """Returns index of each instruction -> handles of the nodes that it computes, if they have handles."""
    found = (
        sorted({node.meta["debug_handle"] for node in nodes if "debug_handle" in node.meta})
        for nodes in origins
    )
    return {index: tuple(handles) for index, handles in enumerate(found) if handles}


def check_mapping(mapping: Mapping[int | str, tuple[int, ...]], view: PartitionView, backend_id: str) -> None:
    """Checks that a debug map matches its partition.

    Args:
        mapping: of `PreprocessResult.debug_handle_map`.
        view: the partition.
        backend_id: its backend.

    Raises:
        DelegatecError: DC421 for each wrong entry: handles not of nodes of the partition, its inputs or its
            constants; unsorted, duplicate or no handles; identifiers of two types.
    """
    found = (*view.nodes, *view.body_nodes(), *view.inputs, *view.constants)
    known = {node.meta.get("debug_handle") for node in found}
    problems = []
    if len({type(identifier) for identifier in mapping}) > 1:
        problems.append("identifiers are both int and str")
    for identifier, handles in mapping.items():
        if not handles or list(handles) != sorted(set(handles)):
            problems.append(f"entry {identifier!r} has the handles {handles!r}, not sorted and unique")
        elif not known.issuperset(handles):
            strangers = sorted(set(handles) - known)
            problems.append(f"entry {identifier!r} has {strangers}, not handles of nodes of the partition")
    if problems:
        raise DelegatecError(
            Diagnostic(
                "DC421",
                f"the debug map of {backend_id} does not match its partition: {problem}",
                expected="identifier -> sorted debug handles of nodes of the partition",
                help="make it with delegatec.delegation.DelegateMappingBuilder",
            )
            for problem in problems
        )


def _handles_of(nodes: Node | Iterable[Node]) -> list[int | None]:
    return [n.meta.get("debug_handle") for n in ((nodes,) if isinstance(nodes, Node) else nodes)]


def _as_given(handles: int | Iterable[int | None] | None) -> list[int | None]:
    return list(handles) if isinstance(handles, Iterable) else [handles]


def _misuse(message: str, expected: str) -> DelegatecError:
    return DelegatecError(
        [
            Diagnostic(
                "DC420",
                f"a backend's debug map: {message}",
                location=_caller(),
                expected=expected,
                help="this is a bug in the backend, not in the model",
            )
        ]
    )


def _caller() -> SourceLocation | None:
    """Returns the line that called the builder, relative to the current directory; None if outside of it."""
    frame = sys._getframe(1)
    # By name: the file's path in bytecode differs from `__file__` if the module comes from an archive.
    while frame.f_globals.get("__name__") == __name__ and frame.f_back is not None:
        frame = frame.f_back
    path = os.path.relpath(frame.f_code.co_filename)
    if path.startswith(os.pardir):
        return None
    summary = traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return SourceLocation(path, frame.f_lineno, frame.f_code.co_name, (summary.line or "").strip())
