# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: problems of user input, with location, expectation and help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from delegatec.diagnostics.codes import CODES
from delegatec.diagnostics.exceptions import printable

# Problems and characters of a source line that are shown; a `DelegatecError` has all.
_MOST: Final = 30
_LONGEST: Final = 200


@dataclass(frozen=True, order=True)
class SourceLocation:
    """A stack frame of user code.

    Attributes:
        file: workspace-relative path, or a path below `site-packages/` for model code in a library.
        line: 1-based line number.
        function: name of the enclosing function, such as "forward".
        text: the source line, stripped; empty if unknown.
        via: "file:line" of the library code below this frame that calls the operator; empty if the frame
            calls it.
    """

    file: str
    line: int
    function: str = ""
    text: str = ""
    via: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Diagnostic:
    """A problem in the user's input.

    Attributes:
        code: a stable code, a key of `CODES`.
        message: the error, in one sentence, with the offending value.
        location: the user's line, if known.
        node: name of the graph node, if any.
        expected: what would be valid.
        help: what to do.
    """

    code: str
    message: str
    location: SourceLocation | None = None
    node: str = ""
    expected: str = ""
    help: str = ""

    def __post_init__(self) -> None:
        assert self.code in CODES, f"diagnostic code {self.code} is not in CODES"


class DelegatecError(Exception):
    """An error with all problems found in one input, in reading order.

    Attributes:
        diagnostics: the problems, at least one.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        assert self.diagnostics, "an error needs at least one diagnostic"
        super().__init__(render(self.diagnostics))


def render(diagnostics: Iterable[Diagnostic], label: str = "") -> str:
    """Returns the text shown to the user, one block per diagnostic.

    Args:
        diagnostics: the diagnostics; those that differ in the node only are shown once.
        label: the Bazel label or file that they belong to.
    """
    groups: dict[Diagnostic, list[str]] = {}
    for diagnostic in diagnostics:
        nodes = groups.setdefault(replace(diagnostic, node=""), [])
        if diagnostic.node not in nodes:
            nodes.append(diagnostic.node)
    blocks = [_block(diagnostic, nodes, label) for diagnostic, nodes in groups.items()]
    if len(blocks) > _MOST:
        blocks[_MOST:] = [f"and {len(blocks) - _MOST} other problems"]
    return "\n".join(blocks)


def _block(diagnostic: Diagnostic, nodes: Sequence[str], label: str) -> str:
    lines = [f"{label}: " if label else ""]
    lines[0] += f"error {diagnostic.code}: {diagnostic.message}"
    where = diagnostic.location
    if where is not None:
        function = f" in {where.function}" if where.function else ""
        text = f": {_shortened(printable(where.text))}" if where.text else ""
        lines.append(f"  at {where}{function}{text}")
        if where.via:
            lines.append(f"  in {where.via}")
    lines += [
        f"  {title}: {text}"
        for title, text in (
            ("node", _node_text(nodes)),
            ("expected", diagnostic.expected),
            ("help", diagnostic.help),
        )
        if text
    ]
    return "\n".join(lines)


def _node_text(nodes: Sequence[str]) -> str:
    others = len(nodes) - 1
    return f"{nodes[0]}, and {others} other{'s' * (others > 1)}" if others else nodes[0]


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
