# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from delegatec.report.decoding import decoded


@dataclass(frozen=True)
class Point:
    """Fields of each kind."""

    name: str
    at: tuple[int, ...]
    weight: float = 1.0
    next: Point | None = None
    options: dict[str, str | tuple[str, ...]] | None = None


class Row(TypedDict):
    """A dict with known keys."""

    point: Point
    flags: list[bool]


def test_documents() -> None:
    value = {
        "name": "a",
        "at": [1, 2],
        "next": {"name": "b", "at": [], "weight": 2, "options": {"x": "y", "z": ["1"]}},
    }
    point = Point("a", (1, 2), 1.0, Point("b", (), 2, None, {"x": "y", "z": ("1",)}))
    assert decoded(Point, value) == point
    assert decoded(Row, {"point": value, "flags": [True]}) == {"point": point, "flags": [True]}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Point, [], "the document is list, expected dict"),
        (Point, {"name": "a"}, "the document has no at"),
        (Point, {"name": "a", "at": [1, "2"]}, r"\.at\[1\] is str, expected int"),
        (Point, {"name": "a", "at": [True]}, r"\.at\[0\] is bool, expected int"),
        (Point, {"name": None, "at": []}, r"\.name is NoneType, expected str"),
        (Point, {"name": "a", "at": [], "of": 1}, "has an unknown of"),
        (Point, {"name": "a", "at": [], "next": {"name": "b"}}, r"\.next has no at"),
        (Row, {"point": {"name": "a", "at": []}}, "the document has no flags"),
        (Row, {"point": {"name": "a", "at": []}, "flags": [0]}, r"\.flags\[0\] is int, expected bool"),
    ],
)
def test_other_documents(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded(kind, value)
