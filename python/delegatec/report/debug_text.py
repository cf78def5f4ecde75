# SPDX-License-Identifier: Apache-2.0
"""Text form of a debug map: the origin of each instruction of a program and its delegates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# Maximum number of nodes, or lines, to list.
_SHOWN: Final = 4

Row = tuple[str, str, str, str]
"""Index of an instruction, its callee, nodes of the exported program, lines of the model."""


def format_debug_map(document: Mapping[str, Any]) -> str:
    """Returns a debug map as text, with a final newline.

    Args:
        document: result of `debug_map` or `parse_debug_map`.
    """
    lines: list[str] = []
    for name, method in document["methods"].items():
        lines += ([""] if lines else []) + [f"lines of method {name}:"]
        rows = [("", "calls", "for", "at"), *debug_rows(method)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines += ["  " + "  ".join((*map(str.ljust, row, widths), row[3])).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def debug_rows(method: Mapping[str, Any]) -> list[Row]:
    """Yields a row for each instruction; delegate calls are followed by the delegate's instructions.

    Args:
        method: a method in a debug map.
    """
    delegates = {index: found for found in method["delegates"] for index in found["instructions"]}
    rows: list[Row] = []
    for index, instruction in enumerate(method["instructions"]):
        delegate = delegates.get(index)
        calls = instruction["calls"] + (f" ({delegate['backend']})" if delegate is not None else "")
        rows.append((str(index), calls, *_origin(method, instruction["handles"])))
        if delegate is not None:
            for identifier, handles in delegate["map"].items():
                rows.append(("", f"  {identifier}", *_origin(method, handles)))
    return rows


def _origin(method: Mapping[str, Any], handles: Sequence[int]) -> tuple[str, str]:
    """Returns the nodes of the exported program and the lines of the model for handles."""
    entries = [method["handles"][str(handle)] for handle in handles if str(handle) in method["handles"]]
    return _some(entry["node"] for entry in entries), _some(entry["source"] for entry in entries)


def _some(names: Any) -> str:
    found = [name for name in dict.fromkeys(names) if name]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
