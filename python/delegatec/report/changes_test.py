# SPDX-License-Identifier: Apache-2.0
"""Differences of trees of facts, and their text."""

from __future__ import annotations

from typing import Any

from delegatec.report.changes import Change, changes, format_changes
from delegatec.report.facts import merged

BEFORE: dict[str, Any] = {
    "file": {"bytes": 1000},
    "methods": {"forward": {"inputs": {"0": "float32[1]"}, "kernels": {"aten::add.out": 2}, "not": {}}},
    "gone": "text",
}
AFTER: dict[str, Any] = {
    "file": {"bytes": 1250},
    "methods": {
        "forward": {"inputs": {"0": "float32[1]"}, "kernels": {"aten::mul.out": 1}},
        "other": {"inputs": {"0": "int64[2]"}, "kernels": {}},
    },
}


def test_each_difference_has_its_path() -> None:
    assert list(changes(BEFORE, AFTER)) == [
        Change(("file", "bytes"), 1000, 1250),
        Change(("methods", "forward", "kernels", "aten::add.out"), 2, None),
        Change(("methods", "forward", "kernels", "aten::mul.out"), None, 1),
        Change(("methods", "other"), None, AFTER["methods"]["other"]),
        Change(("gone",), "text", None),
    ]
    assert list(changes(BEFORE, BEFORE)) == []


def test_text() -> None:
    assert format_changes(list(changes(BEFORE, AFTER))) == (
        "  file\n"
        "~   bytes: 1000 -> 1250 (+25.0%)\n"
        "  methods\n"
        "    forward\n"
        "      kernels\n"
        "-       aten::add.out: 2\n"
        "+       aten::mul.out: 1\n"
        "+   other\n"
        "+     inputs\n"
        "+       0: int64[2]\n"
        "- gone: text\n"
    )


def test_hashes_are_short_and_small_numbers_have_no_percentage() -> None:
    text = format_changes([Change(("sha256",), "a" * 64, "b" * 64), Change(("nodes",), 8, 32)])
    assert text == f"~ sha256: {'a' * 16} -> {'b' * 16}\n~ nodes: 8 -> 32\n"


def test_sizes() -> None:
    assert Change(("arena bytes",), 1, 2).is_size()
    assert not Change(("nodes",), 1, 2).is_size() and not Change(("bytes",), None, 2).is_size()


def test_union() -> None:
    assert merged({"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": 4}) == {"a": {"b": 1, "d": 3}, "c": 4}
