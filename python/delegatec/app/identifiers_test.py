# SPDX-License-Identifier: Apache-2.0
"""Identifiers of C++."""

from __future__ import annotations

import pytest

from delegatec.app.identifiers import identifier, identifiers, type_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tokens", "tokens"),
        ("class", "class_"),
        ("_x", "x"),
        ("a__b", "a_b"),
        ("0", "value_0"),
        ("", "value"),
        ("args[0]['mask']", "args_0_mask"),
        ("größe", "gr_e"),
    ],
)
def test_identifier(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_different_names_remain_different() -> None:
    assert identifiers(["x", "_x", "x_1", "load"], ["load"]) == ["x", "x_1", "x_1_1", "load_1"]


def test_type_name() -> None:
    assert type_name("get_image") == "GetImage" and type_name("2d") == "Value2d"
