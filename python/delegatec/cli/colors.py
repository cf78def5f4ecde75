# SPDX-License-Identifier: Apache-2.0
"""Colors of texts on a terminal; files and pipes get plain text."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TextIO

from delegatec.diagnostics.exceptions import printable

_BOLD, _DIM, _RED, _GREEN, _YELLOW, _CYAN = "1", "2", "31", "32", "33", "36"

Rules = Sequence[tuple[re.Pattern[str], str]]
"""Patterns, applied to each line in order, and the color of the match: its first group, if any."""

INSPECTION: Final[Rules] = (
    (re.compile(r"^(?:program|data file|exported program|method|lines of|delegate) .*"), _BOLD),
    (re.compile(r"^ {2,}(?:part|backend|name|calls|type) {2,}\S.*"), _DIM),
    (re.compile(r"^ {2}((?:input|output) \d+|[a-z][a-z ]*:)"), _CYAN),
    (re.compile(r"\(\d+ B\)"), _DIM),
    (re.compile(r"(?<= )[0-9a-f]{16}(?= |$)"), _DIM),
)
DIFFERENCE: Final[Rules] = (
    (re.compile(r"^\+ .*"), _GREEN),
    (re.compile(r"^- .*"), _RED),
    (re.compile(r"^~ .*"), _YELLOW),
    (re.compile(r"^ {2}\S.*"), _BOLD),
)

EXPLANATION: Final[Rules] = (
    (re.compile(r"^\S.*, method .*"), _BOLD),
    (re.compile(r"^ {6}at (.*)"), _CYAN),
    (re.compile(r"^ {2}(To do:)"), _YELLOW),
)


def add_color_argument(parser: argparse.ArgumentParser) -> None:
    """Declares the argument."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (the default): on a terminal, unless NO_COLOR is set",
    )


def write_colored(text: str, rules: Rules, choice: str) -> None:
    """Writes a text to stdout, with colors if they are wanted.

    Files have names and texts of others: their control characters could command a terminal, and are escaped.

    Args:
        text: lines.
        rules: what gets which color.
        choice: the value of `--color`.
    """
    text = escaped(text)
    is_colored = choice == "always" or (choice == "auto" and is_colorful(sys.stdout, os.environ))
    sys.stdout.write(colored(text, rules) if is_colored else text)


def escaped(text: str) -> str:
    """Returns lines whose control characters are escaped."""
    return "\n".join(map(printable, text.split("\n")))


def is_colorful(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal with colors, and the user has not disabled them (https://no-color.org)."""
    if environment.get("NO_COLOR") or environment.get("TERM", "dumb") == "dumb":
        return False
    return stream.isatty()


def colored(text: str, rules: Rules) -> str:
    """Returns a text with escape sequences for colors."""
    return "".join(_line(line, rules) for line in text.splitlines(keepends=True))


def _line(line: str, rules: Rules) -> str:
    for pattern, color in rules:
        line = pattern.sub(partial(_painted, color), line)
        if pattern.groups == 0 and line.startswith("\x1b"):
            break  # the whole line
    return line


def _painted(color: str, found: re.Match[str]) -> str:
    start, end = found.span(1) if found.re.groups else found.span()
    text, first = found.string, found.start()
    return f"{text[first:start]}\x1b[{color}m{text[start:end]}\x1b[0m{text[end : found.end()]}"
