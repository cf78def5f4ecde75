# SPDX-License-Identifier: Apache-2.0
"""A debug map as text: what each instruction of a program, and of its delegates, comes of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# How many nodes, or lines, are named before the rest is counted.
_SHOWN: Final = 4

Row = tuple[str, str, str, str]
"""Index of an instruction, what it calls, nodes of the exported program, lines of the model."""


def format_debug_map(document: Mapping[str, Any]) -> str:
    """A debug map as text, the last line ended.

    Args:
        document: what `debug_map` gave, or `debug_map_json`, parsed.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    lines: list[str] = []
    for name, method in document["methods"].items():
        lines += ([""] if lines else []) + [f"lines of method {name}:"]
        rows = [("", "calls", "for", "at"), *debug_rows(method)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines += ["  " + "  ".join((*map(str.ljust, row, widths), row[3])).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def debug_rows(method: Mapping[str, Any]) -> list[Row]:
    """A row for each instruction; below the call of a delegate, one for each instruction of its own.

    Args:
        method: of a debug map.
    """
    delegates = {index: found for found in method["delegates"] for index in found["instructions"]}
    rows: list[Row] = []
    for index, step in enumerate(method["instructions"]):
        delegate = delegates.get(index)
        calls = step["calls"] if delegate is None else f"{step['calls']} ({delegate['backend']})"
        rows.append((str(index), calls, *_origin(method, step["handles"])))
        if delegate is not None:
            for identifier, handles in delegate["map"].items():
                rows.append(("", f"  {identifier}", *_origin(method, handles)))
    return rows


def _origin(method: Mapping[str, Any], handles: Sequence[int]) -> tuple[str, str]:
    """The nodes of the exported program that handles stand for, and the lines of the model."""
    entries = [method["handles"][str(handle)] for handle in handles if str(handle) in method["handles"]]
    return _some(entry["node"] for entry in entries), _some(entry["source"] for entry in entries)


def _some(names: Any) -> str:
    found = [name for name in dict.fromkeys(names) if name]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
