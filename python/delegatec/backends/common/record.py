# SPDX-License-Identifier: Apache-2.0
"""The operations that rows and rewrites emit, recorded by a backend's tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from delegatec.edge.legalize.rule import Rewrite, Rewrites

Entries = Mapping[str, set[str]]


@dataclass(frozen=True)
class Record:
    """Contents of a file that tests write, or are compared with.

    Attributes:
        rows: overload of each row -> names of the format's operations that it emitted.
        rewrites: name of each rewrite, see `named` -> the operators that it emitted.
        untested: rows and rewrites of the table that emitted nothing, as text.
    """

    rows: Entries
    rewrites: Entries
    untested: set[str] = field(default_factory=set)

    @staticmethod
    def read(path: Path) -> Record:
        """Reads a file."""
        contents = json.loads(path.read_text(encoding="utf-8"))
        rows, rewrites = (
            {key: set(names) for key, names in contents[part].items()} for part in ("rows", "rewrites")
        )
        return Record(rows, rewrites, set(contents["untested"]))

    def text(self) -> str:
        """Returns the contents of a file: one line for each row and rewrite, sorted."""
        untested = [f"\n  {json.dumps(each)}" for each in sorted(self.untested)]
        parts = (
            f'"rows": {_lines(self.rows)}',
            f'"rewrites": {_lines(self.rewrites)}',
            '"untested": [' + ",".join(untested) + "\n" * bool(untested) + "]",
        )
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def beyond(self, other: Record) -> list[str]:
        """Returns the entries that the other record lacks, as text."""
        return [
            f"{key} -> {' '.join(extra) or 'nothing'}"
            for own, others in ((self.rows, other.rows), (self.rewrites, other.rewrites))
            for key, names in own.items()
            if (extra := sorted(names - others.get(key, set()))) or key not in others
        ]


def named(rewrites: Rewrites) -> Iterator[tuple[str, Rewrite]]:
    """Yields each rewrite with its name: its overload, numbered from the second rewrite of an overload on."""
    for target, alternatives in rewrites.items():
        for index, rewrite in enumerate(alternatives, 1):
            yield (str(target) if index == 1 else f"{target} {index}"), rewrite


def _lines(entries: Entries) -> str:
    lines = (f"  {json.dumps(key)}: {json.dumps(sorted(names))}" for key, names in sorted(entries.items()))
    return "{\n" + ",\n".join(lines) + "\n}"
