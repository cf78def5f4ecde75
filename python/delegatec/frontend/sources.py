# SPDX-License-Identifier: Apache-2.0
"""The lines of the model that the nodes of an archive come from: a file next to it.

The `.pt2` refers to them by number, so its bytes stay the same when only comments, blank lines or formatting
of the model change, and its dependents need not be built again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from torch._export.serde import schema
from torch.export import ExportedProgram
from torch.fx import GraphModule

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.edge.source import frames_of, location_of
from delegatec.files import replacing
from delegatec.frontend.pt2.fields import MalformedError, entries, fail, integer, parsed, record, text

# Instead of a file's name. Lines are those of the table of a method, from 1.
_PREFIX: Final = "sources:"
_REFERENCE: Final = re.compile(r'^ *File "sources:(\w+)", line (\d{1,9}), in (\S+)\s*$')
_SHORT: Final = re.compile(r"\bsources:(\w+):(\d{1,9})\b")

# The frames of a stack trace, outermost first.
Frames = tuple[SourceLocation, ...]


@dataclass(frozen=True)
class SourceTable:
    """The lines of a model.

    Attributes:
        methods: method name -> name and frames of each node that has a stack trace, in the order of the
            graph. Bodies of control flow follow the node that calls them.
    """

    methods: dict[str, list[tuple[str, Frames]]] = field(default_factory=dict)

    def stack_trace(self, trace: str) -> str:
        """Returns a stack trace in torch's format; one that does not refer to this table, unchanged."""
        found = _REFERENCE.match(trace)
        frames = self._frames(found[1], int(found[2]), found[3]) if found else ()
        return _trace(frames) if frames else trace

    def location(self, location: SourceLocation | None) -> SourceLocation | None:
        """Returns the line that a location refers to; one that does not refer to this table, unchanged."""
        if location is None or not location.file.startswith(_PREFIX):
            return location
        method = location.file.removeprefix(_PREFIX)
        return location_of(_trace(self._frames(method, location.line, location.function))) or location

    def short_location(self, text: str) -> SourceLocation | None:
        """Returns the line that a text such as "sources:forward:17" refers to; None for another text."""
        found = _SHORT.fullmatch(text)
        return location_of(_trace(self._frames(found[1], int(found[2])))) if found else None

    def replaced(self, text: str) -> str:
        """Returns a text with the innermost lines instead of references."""
        return _SHORT.sub(self._line, text)

    def _line(self, found: re.Match[str]) -> str:
        location = self.short_location(found[0])
        return found[0] if location is None else location.via or str(location)

    def _frames(self, method: str, number: int, node: str = "") -> Frames:
        nodes = self.methods.get(method, [])
        if not 0 < number <= len(nodes):
            return ()
        name, frames = nodes[number - 1]
        # A table of another model would have wrong lines.
        return frames if node in ("", name) else ()

    @contextmanager
    def locating(self) -> Iterator[None]:
        """A scope whose diagnostics have the lines that they refer to."""
        try:
            yield
        except DelegatecError as error:
            located = [replace(each, location=self.location(each.location)) for each in error.diagnostics]
            raise DelegatecError(located) from error


def _trace(frames: Frames) -> str:
    return "\n".join(
        f'  File "{frame.file}", line {frame.line}, in {frame.function}\n    {frame.text}' for frame in frames
    )


def detach(method: str, program: schema.ExportedProgram, table: SourceTable) -> None:
    """Moves the stack traces of a serialized program to a table.

    Traces that refer to a table, as in a program that was read without its lines, are left.
    """
    nodes = table.methods.setdefault(method, [])
    for node in _nodes(program.graph_module.graph):
        trace = node.metadata.get("stack_trace")
        if trace is None or _REFERENCE.match(trace):
            continue
        frames = frames_of(trace)
        if not frames:
            del node.metadata["stack_trace"]
            continue
        name = _name(node, len(nodes) + 1)
        nodes.append((name, frames))
        node.metadata["stack_trace"] = f'  File "{_PREFIX}{method}", line {len(nodes)}, in {name}\n    '


def _nodes(graph: schema.Graph) -> Iterator[schema.Node]:
    for node in graph.nodes:
        yield node
        for argument in node.inputs:
            if argument.arg.type == "as_graph":
                yield from _nodes(argument.arg.as_graph.graph)


def _name(node: schema.Node, number: int) -> str:
    """Returns the name of a node; one with several results may have none."""
    if node.name:
        return node.name
    for result in node.outputs:
        if result.type == "as_tensor":
            return str(result.as_tensor.name)
    return f"node_{number}"


def attach(methods: Mapping[str, ExportedProgram], table: SourceTable) -> None:
    """Gives the nodes of programs the stack traces of a table, in place."""
    for program in methods.values():
        for module in program.graph_module.modules():
            if not isinstance(module, GraphModule):
                continue
            for node in module.graph.nodes:
                if trace := node.meta.get("stack_trace"):
                    node.meta["stack_trace"] = table.stack_trace(trace)


def write_sources(table: SourceTable, path: str) -> None:
    """Writes a table as JSON.

    `{"frames": [{"file", "line", "function", "text"}], "methods": {name: [{"node", "frames"}]}}`: a node's
    frames are indices, outermost first.
    """
    frames: dict[SourceLocation, int] = {}
    methods = {
        method: [
            {"node": name, "frames": [frames.setdefault(frame, len(frames)) for frame in trace]}
            for name, trace in nodes
        ]
        for method, nodes in table.methods.items()
    }
    stored = [
        {"file": frame.file, "line": frame.line, "function": frame.function, "text": frame.text}
        for frame in frames
    ]
    with replacing(path) as file:
        file.write(_json({"frames": stored, "methods": methods}))


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def read_sources(path: str) -> SourceTable:
    """Reads a table.

    Raises:
        OSError: the file cannot be opened.
        DelegatecError: DC120, it is not a table of lines.
    """
    try:
        return _parsed(Path(path).read_bytes())
    except MalformedError as error:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC120",
                    f"cannot read {os.path.basename(path)}: {error}",
                    expected="the lines of a .pt2, written by `delegatec export`",
                    help="export the model again with this version of the compiler",
                )
            ]
        ) from error


def _parsed(content: bytes) -> SourceTable:
    document = parsed(content, "it")
    frames = entries(document.get("frames"), "frames", _frame)
    return SourceTable(
        {
            method: entries(nodes, "nodes", lambda node, what: _node(record(node, what), frames))
            for method, nodes in record(document.get("methods"), "methods").items()
        }
    )


def _frame(stored: Any, what: str) -> SourceLocation:
    frame = record(stored, what)
    return SourceLocation(
        text(frame.get("file"), "file"),
        integer(frame.get("line"), "line"),
        text(frame.get("function"), "function"),
        text(frame.get("text"), "text"),
    )


def _node(stored: dict[str, Any], frames: list[SourceLocation]) -> tuple[str, Frames]:
    indices = entries(stored.get("frames"), "frames", integer)
    if any(not 0 <= index < len(frames) for index in indices):
        fail("a node has a frame that is not in the table")
    return text(stored.get("node"), "node"), tuple(frames[index] for index in indices)
