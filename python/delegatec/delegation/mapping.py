# SPDX-License-Identifier: Apache-2.0
"""The debug map of a delegate: from what its runtime reports of an instruction to nodes of the program.

Names and semantics are those that ExecuTorch 1.4.1 has for backends (`executorch.exir.backend.utils`,
`DelegateMappingBuilder`), so that a backend's author finds what they know; `tests/peer/mapping_test.py`
compares the two. Stricter here: an identifier that is neither int nor str, int and str identifiers in one
map (they become keys of one JSON object), and a handle that is no positive integer are refused.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Mapping

from torch.fx import Node

from delegatec.delegation.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation

DebugHandleMap = dict[int | str, tuple[int, ...]]
"""The backend's identifier of an instruction -> debug handles of the nodes it stands for, sorted."""


class DelegateMappingBuilder:
    """Collects the debug map of one delegate, one entry for each of its instructions.

    Every misuse raises `DelegatecError` DC420 with the line of the backend that called: it is a mistake of
    the backend's author, which a user of the backend must be able to report. An entry that was refused leaves
    no trace, and uses up no generated identifier.

    Args:
        generated_identifiers: whether identifiers are 0, 1, 2, ... in order of insertion. Otherwise each
            entry brings the backend's own.
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
        """Adds what one instruction of the delegate stands for.

        Args:
            nodes: the node or nodes, whose debug handles are taken; those without one are skipped.
            handles: instead of nodes, the debug handle or handles; None among them is skipped.
            identifier: what the backend's runtime calls the instruction; not to be given if identifiers are
                generated.

        Returns:
            The identifier of the entry.

        Raises:
            DelegatecError: DC420; an identifier is given although they are generated, or missing although
                they are not, or of the wrong type, or there already; not just one of `nodes` and `handles`
                is given; no debug handle is left; a handle is no positive integer.
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
                f"{wrong[0]!r} is no debug handle", 'integers from 1 on, as in node.meta["debug_handle"]'
            )
        if not found:
            raise _misuse(
                f"entry {key!r} has no debug handle", "at least one, of a node of the partition or by itself"
            )
        self._map[key] = tuple(sorted(set(found)))
        return key

    def get_delegate_mapping(self) -> DebugHandleMap:
        """A copy of the map: identifier -> debug handles, sorted, each once; in order of insertion."""
        return dict(self._map)

    def _identifier(self, given: int | str | None) -> int | str:
        if self._generated:
            if given is not None:
                raise _misuse(f"identifier {given!r} is given, and they are generated", "no identifier")
            return len(self._map)
        if type(given) not in (int, str) or given is None:
            raise _misuse(f"identifier {given!r} is no int and no str", "the backend's id of the instruction")
        if given in self._map:
            raise _misuse(f"identifier {given!r} has an entry already", "one entry for each identifier")
        if self._map and type(given) is not type(next(iter(self._map))):
            raise _misuse(
                f"identifier {given!r} is a {type(given).__name__}, and those before it are not",
                "all identifiers int, or all str",
            )
        return given


def check_mapping(mapping: Mapping[int | str, tuple[int, ...]], view: PartitionView, backend_id: str) -> None:
    """Refuses a debug map that does not fit the partition it came with, however it was made.

    Args:
        mapping: of `PreprocessResult.debug_handle_map`.
        view: the partition.
        backend_id: who compiled it.

    Raises:
        DelegatecError: DC421, for each entry that is wrong: handles that are no nodes of the partition,
            its inputs or its constants, or not sorted, or twice, or none; identifiers of two types.
    """
    known = {node.meta.get("debug_handle") for node in (*view.nodes, *view.inputs, *view.constants)}
    problems = []
    if len({type(identifier) for identifier in mapping}) > 1:
        problems.append("identifiers are int and str at once")
    for identifier, handles in mapping.items():
        if not handles or list(handles) != sorted(set(handles)):
            problems.append(f"entry {identifier!r} has the handles {handles!r}, not sorted and each once")
        elif not known.issuperset(handles):
            strangers = sorted(set(handles) - known)
            problems.append(f"entry {identifier!r} has {strangers}, the handles of no node of the partition")
    if problems:
        raise DelegatecError(
            Diagnostic(
                "DC421",
                f"the debug map of {backend_id} does not fit its partition: {problem}",
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
                help="a mistake of the backend, not of the model",
            )
        ]
    )


def _caller() -> SourceLocation | None:
    """The line that called the builder, by its path below the current folder; None if it lies elsewhere."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    path = os.path.relpath(frame.f_code.co_filename)
    if path.startswith(os.pardir):
        return None
    summary = traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return SourceLocation(path, frame.f_lineno, frame.f_code.co_name, (summary.line or "").strip())
