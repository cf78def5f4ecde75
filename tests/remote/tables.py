# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown, of the measurements of campaigns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.remote.client import Built


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table."""
    print("\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def described(built: Built) -> str:
    """Returns how a build ran its actions, as text."""
    return ", ".join(f"{number} {kind}" for kind, number in sorted(built.processes.items()))
