# SPDX-License-Identifier: Apache-2.0
"""Strings in JSON for a terminal: what is escaped, and that a reader gets them back."""

from __future__ import annotations

import json
import sys

import pytest

from delegatec.diagnostics.documents import json_document


def test_every_character_comes_back() -> None:
    value = {"all": "".join(map(chr, range(sys.maxunicode + 1))), "list": ["a", 1, None]}
    text = json_document(value)
    assert json.loads(text) == value | {"all": json.loads(json.dumps(value["all"]))}
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "é" in text and "数" in text
    text.encode()  # also surrogates, which have no UTF-8


@pytest.mark.parametrize(
    ("character", "escaped"),
    [
        ("\x1b", "\\u001b"),
        ("\x7f", "\\u007f"),
        ("\x9b31m", "\\u009b31m"),  # a control sequence in one character
        ("\u202e", "\\u202e"),  # the rest of a line from right to left
        ("\U000e0001", "\\udb40\\udc01"),
        ("\n", "\\n"),
    ],
)
def test_what_a_terminal_obeys(character: str, escaped: str) -> None:
    assert json_document([character]) == f'[\n  "{escaped}"\n]\n'


def test_options() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        json_document(float("nan"), allow_nan=False)
