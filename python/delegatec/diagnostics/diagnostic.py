# SPDX-License-Identifier: Apache-2.0
"""What the compiler says of a user's input: one problem, where it is, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from delegatec.diagnostics.codes import CODES


@dataclass(frozen=True, order=True)
class SourceLocation:
    """A frame of the user's code.

    Attributes:
        file: workspace-relative path, or a path below `site-packages/` for a library's model code.
        line: 1-based line number.
        function: name of the enclosing function, such as "forward".
        text: the line itself, stripped; empty where it is not known.
        via: "file:line" of the library code below that frame in which the operator was called; empty where
            the frame itself calls it.
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
    """One problem of one input.

    Attributes:
        code: a stable code, a key of `CODES`.
        message: what is wrong, in one sentence, with the offending value.
        location: the user's line, where there is one.
        node: name of the graph node, where there is one.
        expected: what would have been right.
        help: what to do about it.
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
    """Carries every problem found in one input, in the order in which they should be read."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        assert self.diagnostics, "an error needs at least one diagnostic"
        super().__init__(render(self.diagnostics))


def render(diagnostics: Iterable[Diagnostic], label: str = "") -> str:
    """The text a user sees, one block a diagnostic.

    Args:
        diagnostics: what to show; equal ones are shown once.
        label: the Bazel label, or the file, that the problems belong to.
    """
    return "\n".join(_block(d, label) for d in dict.fromkeys(diagnostics))


def _block(diagnostic: Diagnostic, label: str) -> str:
    lines = [f"{label}: " if label else ""]
    lines[0] += f"error {diagnostic.code}: {diagnostic.message}"
    where = diagnostic.location
    if where is not None:
        function = f" in {where.function}" if where.function else ""
        text = f": {where.text}" if where.text else ""
        lines.append(f"  at {where}{function}{text}")
        if where.via:
            lines.append(f"  in {where.via}")
    lines += [
        f"  {title}: {text}"
        for title, text in (
            ("node", diagnostic.node),
            ("expected", diagnostic.expected),
            ("help", diagnostic.help),
        )
        if text
    ]
    return "\n".join(lines)
