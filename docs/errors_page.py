# SPDX-License-Identifier: Apache-2.0
"""The page of errors: all codes, each with a message of the table of mistakes."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from delegatec.diagnostics import CODES

_ROOT: Final = Path(__file__).parent.parent
_RECORDED: Final = _ROOT / "tests/errors/recorded.json"
_REFUSALS: Final = _ROOT / "tests/rules/refusal_test.bzl"
_CODE: Final = re.compile(r"error (DC\d{3})")
_DETAIL: Final = re.compile(r"^  (at|node|expected|help)\b", re.MULTILINE)
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

The example below a code is what the compiler prints for a mistake that a test makes; its first line names
the mistake. Of all messages with the code (`tests/errors/recorded.json`, `tests/rules/refusal_test.bzl`) it
is the one with the most details: where (`at`), the `node` of the graph, what would be valid (`expected`), and
what to do (`help`). Messages in BUILD files are shortened. A code without an example has no such message.

Exit codes: 1 for these errors, 2 for an invalid command line (`DC001`), 70 for a crash or a bug, 128 and the
number of the signal that ended the compiler."""


def errors_page(generated: str) -> str:
    """Returns the page of all diagnostic codes, with an example of each.

    Args:
        generated: the comment that says that it is generated.
    """
    messages = [*_messages()]
    parts = ["# Error codes", generated, _INTRODUCTION]
    for prefix, title in BLOCKS.items():
        parts.append(f"## {prefix}xx: {title}")
        for code, meaning in sorted(CODES.items()):
            if code.startswith(prefix):
                parts.append(f"### {code}\n\n{meaning}")
                parts += [f"```\n# {name}\n{text}\n```" for name, text in example(code, messages)]
    return "\n\n".join(parts) + "\n"


def example(code: str, messages: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Returns the most instructive message of a code and its mistake, if there is one.

    Args:
        code: the code.
        messages: mistakes and their messages, of which the first of equal ones is returned.
    """
    having = [each for each in messages if _CODE.findall(each[1])[:1] == [code]]
    return [max(having, key=_instruction)] if having else []


def _instruction(message: tuple[str, str]) -> tuple[bool, bool, int]:
    """Returns how instructive a message is: about one problem, not shortened, with many kinds of lines."""
    name, text = message
    return len(_CODE.findall(text)) == 1, not name.startswith(_BUILD), len({*_DETAIL.findall(text)})


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
