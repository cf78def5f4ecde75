# SPDX-License-Identifier: Apache-2.0
"""Notes on what a model was made from, as a member of its archive. They have no lines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from delegatec.diagnostics.notes import NOTES, Note
from delegatec.frontend.pt2.fields import fail, items, parsed, record, text

_FIELDS = frozenset({"method", "name", "message", "help"})


def notes_json(notes: Mapping[str, Sequence[Note]]) -> bytes:
    """Returns the notes on each method as JSON."""
    rows = [
        {"method": method, "name": note.name, "message": note.message, "help": note.help}
        for method, several in notes.items()
        for note in several
    ]
    return json.dumps({"notes": rows}, separators=(",", ":")).encode()


def read_notes(content: memoryview, what: str) -> dict[str, tuple[Note, ...]]:
    """Reads the result of `notes_json`; raises MalformedError for another content."""
    found: dict[str, tuple[Note, ...]] = {}
    for each in items(parsed(content, what).get("notes"), what):
        row = record(each, f"a row of {what}")
        if row.keys() != _FIELDS:
            fail(f"a row of {what} has missing or unknown fields")
        method, name, message, help = (text(row[key], what) for key in ("method", "name", "message", "help"))
        if name not in NOTES:
            fail(f"{what} has notes of the unknown kind {name}")
        if "\n" in message or "\n" in help:
            fail(f"a note of {what} has several lines")
        found[method] = (*found.get(method, ()), Note(name, message, help))
    return found
