# SPDX-License-Identifier: Apache-2.0
"""JSON for files and terminals, whose strings come from files of others."""

from __future__ import annotations

import json
import re
from typing import Any, Final

# Line feeds separate the lines of a document; those in its strings are escaped by the json module.
_ANY_BUT_LINES: Final = re.compile(r"[^\n\x20-\x7e]")
_ASTRAL: Final = 0x10000


def json_document(value: Any, **options: Any) -> str:
    """Returns a value as JSON in lines, with a final newline; letters of all scripts are as they are.

    The json module escapes control characters below U+0020 alone. A terminal also obeys those from U+007F to
    U+009F, and the order of a line changes with others: here everything that is not printable is escaped.

    Args:
        value: what the json module accepts.
        options: of `json.dumps`.

    Raises:
        ValueError: as `json.dumps`.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, **options)
    return _ANY_BUT_LINES.sub(_shown, text) + "\n"


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    if ord(character) < _ASTRAL:
        return f"\\u{ord(character):04x}"
    pair = character.encode("utf-16-be").hex()
    return f"\\u{pair[:4]}\\u{pair[4:]}"
