# SPDX-License-Identifier: Apache-2.0
"""The page of errors: all codes, and the messages of the table of mistakes."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from delegatec.diagnostics import CODES

_ROOT: Final = Path(__file__).parent.parent
_RECORDED: Final = _ROOT / "tests/errors/recorded.json"
_REFUSALS: Final = _ROOT / "tests/rules/refusal_test.bzl"
_CODE: Final = re.compile(r"error (DC\d{3})")
_BUILD: Final = "In BUILD files"

BLOCKS: Final = {
    "DC0": "Environment and command line",
    "DC1": "Model and export",
    "DC2": "Edge program",
    "DC3": "`.pte` program",
    "DC4": "Delegation and backends",
    "DC5": "Verification",
}
_INTRODUCTION: Final = """Every message about a model carries one of these codes, whose meaning never changes.

Below each code is what the compiler prints for mistakes that tests make, by the part of the input that they
are in. A message has one problem per line; the lines after it say where (`at`), what would be valid
(`expected`), and what to do (`help`). Messages in BUILD files are shortened. Exit codes: 1 for these errors,
2 for an invalid command line (`DC001`), 70 for a crash or a bug, 128 and the number of the signal that ended
the compiler."""


def errors_page(generated: str) -> str:
    """Returns the page of all diagnostic codes, with messages.

    Args:
        generated: the comment that says that it is generated.
    """
    shown: dict[str, list[tuple[str, str]]] = {}
    for name, text in _messages():
        if found := _CODE.search(text):
            shown.setdefault(found[1], []).append((name, text))
    parts = ["# Error codes", generated, _INTRODUCTION]
    for prefix, title in BLOCKS.items():
        parts.append(f"## {prefix}xx: {title}")
        for code, meaning in sorted(CODES.items()):
            if code.startswith(prefix):
                parts.append(f"### {code}\n\n{meaning}")
                texts = "\n\n".join(f"# {name}\n{text}" for name, text in shown.get(code, ()))
                parts += [f"```\n{texts}\n```"] if texts else []
    return "\n\n".join(parts) + "\n"


def _messages() -> Iterator[tuple[str, str]]:
    """Yields a mistake and its message, of each in the table and of each in a BUILD file."""
    yield from json.loads(_RECORDED.read_text(encoding="utf-8")).items()
    for node in ast.walk(ast.parse(_REFUSALS.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "refusals":
            assert isinstance(node.value, ast.Dict)
            for target, texts in zip(node.value.keys, node.value.values, strict=True):
                assert isinstance(target, ast.Constant) and isinstance(texts, ast.List)
                words = [text.value for text in texts.elts if isinstance(text, ast.Constant)]
                name = str(target.value).replace("_", " ")
                yield f"{_BUILD}: {name}", f"//pkg:net: {words[0]}: " + " ... ".join(words[1:])
