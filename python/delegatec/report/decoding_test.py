# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from delegatec.report.decoding import Count, Size, decoded


@dataclass(frozen=True)
class Point:
    """Fields of each kind."""

    name: str
    at: tuple[int, ...]
    weight: float = 1.0
    next: Point | None = None
    options: dict[str, str | tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Sizes:
    """Numbers with limits."""

    bytes: Size
    counts: tuple[Count, ...] = ()


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
    assert decoded(Sizes, {"bytes": 0, "counts": [1, 2**63 - 1]}) == Sizes(0, (1, 2**63 - 1))


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
        (Point, {"name": "a", "at": [2**63]}, r"\.at\[0\] is an integer of more than 64 bits"),
        (Point, {"name": "a", "at": [], "weight": math.nan}, r"\.weight is nan, expected a finite number"),
        (Point, {"name": "a", "at": [], "weight": 10**400}, r"\.weight is an integer of more than 64 bits"),
        (Sizes, {"bytes": -1}, r"\.bytes is -1, expected at least 0"),
        (Sizes, {"bytes": "1"}, r"\.bytes is str, expected int"),
        (Sizes, {"bytes": 1, "counts": [1, 0]}, r"\.counts\[1\] is 0, expected at least 1"),
    ],
)
def test_other_documents(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoded(kind, value)
