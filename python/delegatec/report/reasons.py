# SPDX-License-Identifier: Apache-2.0
"""Reasons why backends did not take nodes, grouped and as text."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from delegatec.diagnostics.exceptions import printable
from delegatec.report.manifest import Manifest
from delegatec.report.methods import Location, MethodInfo, NotDelegated


@dataclass(frozen=True)
class Reason:
    """Nodes that a backend rejected for the same reason: message, help, and locations."""

    backend: str
    operator: str
    rule: str
    message: str
    help: str
    nodes: tuple[str, ...]
    locations: tuple[Location, ...]


def reasons_of(method: MethodInfo) -> list[Reason]:
    """Groups equal reasons, those with the most nodes first."""
    alike: dict[tuple[str, str, str, str, str], list[NotDelegated]] = defaultdict(list)
    for item in method.not_delegated:
        alike[item.backend, item.operator, item.rule, item.message, item.help].append(item)
    reasons = [
        Reason(
            *key,
            nodes=tuple(item.node for item in items),
            locations=tuple(dict.fromkeys(item.location for item in items if item.location is not None)),
        )
        for key, items in alike.items()
    ]
    return sorted(
        reasons, key=lambda reason: (-len(reason.nodes), reason.operator, reason.message, reason.backend)
    )


def format_reasons(manifest: Manifest) -> str:
    """Returns how each method was delegated, the notes on it, and why nodes were not delegated, as text.

    Args:
        manifest: the program's manifest.

    Returns:
        Lines, with a final newline.
    """
    lines: list[str] = []
    for method in manifest.methods:
        lines += [*([""] if lines else []), *_method(method)]
    # Names and lines come from files of others, and a terminal would obey their control characters.
    return "\n".join(map(printable, lines)) + "\n"


def _method(method: MethodInfo) -> list[str]:
    if not method.backends:
        return [f"method {method.name}: no backend requested"]
    delegates = len(method.delegates)
    lines = [
        f"method {method.name}: {method.nodes_delegated} of {method.nodes} operators in {delegates} "
        f"delegate{'s' if delegates != 1 else ''}, by {', '.join(method.backends)}"
    ]
    lines += [f"  {d.name}: {d.nodes} operators, {d.backend}, {d.bytes} B" for d in method.delegates]
    for note in method.notes:
        lines += ["", f"  note [{note.name}]: {note.message}"]
        lines += [f"    at {_location_text(note.location)}"] if note.location is not None else []
        lines += [f"    help: {note.help}"] if note.help else []
    for reason in reasons_of(method):
        lines += ["", f"  {reason.operator}, rejected by {reason.backend} [{reason.rule}]: {reason.message}"]
        lines += [f"    at {_location_text(location)}" for location in reason.locations]
        lines.append(f"    node{'s' if len(reason.nodes) > 1 else ''}: {', '.join(reason.nodes)}")
        lines += [f"    help: {reason.help}"] if reason.help else []
    return lines


def _location_text(location: Location) -> str:
    text = f": {location.text}" if location.text else ""
    return f"{location.file}:{location.line} in {location.function}{text}"
