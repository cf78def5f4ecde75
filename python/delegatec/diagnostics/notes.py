# SPDX-License-Identifier: Apache-2.0
"""Notes: what a program could save, or what was changed for its device. The lowering succeeds with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics.diagnostic import SourceLocation

NOTES: Final = {
    "avoided-fault": "A size for which the device computes wrong results was replaced by others.",
    "duplicated-weights": "Several delegates store the same weights.",
    "equal-sizes": "A size is dynamic, and all calibration samples have the same one.",
    "float-activation": "Operators between two int8 layers compute in floating point.",
    "transposed-input": "An NPU transposes an input, which an app could pass channels-last.",
}
"""Name of each kind -> its meaning."""


@dataclass(frozen=True)
class Note:
    """A note on a method.

    Attributes:
        name: its kind, a key of `NOTES`.
        message: one sentence, with the figures.
        help: what to do; empty if nothing.
        location: the user's line, if there is one.
        operand: the position of the input of a delegate that it is about, for which `{operand}` stands in
            the message; None if it is about no input.
    """

    name: str
    message: str
    help: str = ""
    location: SourceLocation | None = None
    operand: int | None = None

    def __post_init__(self) -> None:
        assert self.name in NOTES, f"{self.name} is not in NOTES"


def note_text(label: str, method: str, note: Note) -> str:
    """Returns a note as one line.

    Args:
        label: of the target; may be empty.
        method: the method that it is about.
        note: the note.
    """
    where = f"{note.location}: " if note.location is not None else f"{label}: " if label else ""
    help = f"; {note.help}" if note.help else ""
    return f"{where}note [{note.name}]: {method}: {note.message}{help}"
