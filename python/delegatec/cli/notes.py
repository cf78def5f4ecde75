# SPDX-License-Identifier: Apache-2.0
"""Notes of a lowering on stderr, with the model's lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from delegatec.diagnostics.exceptions import printable

if TYPE_CHECKING:
    from delegatec.diagnostics.notes import Note
    from delegatec.frontend.archive import LoadedModel


def with_notes_of_model(
    notes: Mapping[str, tuple[Note, ...]], model: LoadedModel, silenced: Collection[str]
) -> dict[str, tuple[Note, ...]]:
    """Returns the notes on each method, with those that are stored in the model."""
    stored = {
        method: tuple(note for note in several if note.name not in silenced)
        for method, several in model.notes.items()
    }
    merged = {method: (*notes.get(method, ()), *stored.get(method, ())) for method in model.methods}
    return {method: several for method, several in merged.items() if several}


def print_notes(notes: Mapping[str, Sequence[Note]], arguments: argparse.Namespace) -> None:
    """Prints a line for each note.

    With `--unused-inputs`, programs refer to lines by number: the file of lines is read for this output.

    Args:
        notes: method -> its notes.
        arguments: those of `delegatec lower`.
    """
    if not notes:
        return
    from delegatec.diagnostics.notes import note_text
    from delegatec.frontend.sources import SourceTable, read_sources

    is_located = not (arguments.unused_inputs and arguments.sources)
    table = SourceTable() if is_located else read_sources(arguments.sources)
    for method, several in notes.items():
        for note in several:
            where = note.location
            located = note if where is None or is_located else replace(note, location=table.location(where))
            print(printable(note_text(arguments.label, method, located)), file=sys.stderr)
