# SPDX-License-Identifier: Apache-2.0
"""The search for layers in float of a quantized model, as a member of its archive."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from delegatec.diagnostics import SourceLocation
from delegatec.frontend.pt2.fields import fail, flag, integer, items, number, parsed, record, text
from delegatec.frontend.sources import SourceTable
from delegatec.samples.search import FloatLayer, Search, SearchPoint, SourceLine

_Read = Callable[[Any, str], Any]


def search_json(search: Search) -> bytes:
    """Returns a search as JSON."""
    return json.dumps(dataclasses.asdict(search), allow_nan=False, separators=(",", ":")).encode()


def read_search(content: memoryview, what: str) -> Search:
    """Reads the result of `search_json`; raises MalformedError for another content."""
    found: Search = _read(Search, _SEARCH, parsed(content, what), what)
    if not found.has_one_choice:
        fail(f"{what} does not have one chosen point")
    return found


def located(search: Search, table: SourceTable) -> Search:
    """Returns a search whose layers have lines instead of references to nodes."""
    return dataclasses.replace(search, in_float=tuple(_located(layer, table) for layer in search.in_float))


def _located(layer: FloatLayer, table: SourceTable) -> FloatLayer:
    if layer.location is None:
        return layer
    found = table.location(SourceLocation(**dataclasses.asdict(layer.location)))
    assert found is not None
    return dataclasses.replace(layer, location=SourceLine(found.file, found.line, found.function, found.text))


def _read(kind: Any, fields: Mapping[str, _Read], value: Any, what: str) -> Any:
    row = record(value, what)
    if row.keys() != fields.keys():
        fail(f"a row of {what} has missing or unknown fields")
    return kind(**{name: read(row[name], what) for name, read in fields.items()})


def _count(value: Any, what: str) -> int:
    return integer(value, what, 0)


def _finite(value: Any, what: str) -> float:
    found = number(value, what)
    if not math.isfinite(found):
        fail(f"a value of {what} is not finite")
    return found


def _line(value: Any, what: str) -> SourceLine | None:
    found: SourceLine | None = None if value is None else _read(SourceLine, _LINE, value, what)
    return found


def _points(value: Any, what: str) -> tuple[SearchPoint, ...]:
    return tuple(_read(SearchPoint, _POINT, each, what) for each in items(value, what))


def _layers(value: Any, what: str) -> tuple[FloatLayer, ...]:
    return tuple(_read(FloatLayer, _LAYER, each, what) for each in items(value, what))


_LINE: Final[Mapping[str, _Read]] = {"file": text, "line": integer, "function": text, "text": text}
_LAYER: Final[Mapping[str, _Read]] = {
    "module": text,
    "operator": text,
    "noise": _finite,
    "operations": _finite,
    "location": _line,
}
_POINT: Final[Mapping[str, _Read]] = {
    "float_layers": _count,
    "integer_operations": _finite,
    "weight_bytes": _count,
    "value": _finite,
    "is_chosen": flag,
}
_SEARCH: Final[Mapping[str, _Read]] = {
    "metric": text,
    "samples": _count,
    "baseline": _finite,
    "maximum_loss": _finite,
    "layers": _count,
    "evaluations": _count,
    "points": _points,
    "in_float": _layers,
}
