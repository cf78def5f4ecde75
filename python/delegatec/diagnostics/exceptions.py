# SPDX-License-Identifier: Apache-2.0
"""Texts of exceptions from user code and libraries, for one line of a diagnostic."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_ALLOCATOR: Final = re.compile(r"can't allocate memory: you tried to allocate (\d+) bytes")
# The file of a module, in the text of an ImportError.
_MODULE_FILE: Final = re.compile(r" \((?:/[^()]*|unknown location)\)")
# The same in that of an AttributeError, from Python 3.13 on.
_PARTIAL_MODULE_FILE: Final = re.compile(r"(partially initialized module '[\w.]+') from '[^']*'")
# The prefix that torch's C++ code prints before the error.
_ENFORCE: Final = re.compile(r"^\[enforce fail at [^\]]*\]\s*(?:\.\s*)?")
_LONGEST: Final = 250
_LONGEST_MESSAGE: Final = 1000


def exception_text(error: BaseException) -> str:
    """Returns the type of an exception and the first line of its text, with the lines after a final colon."""
    kind, text = type(error).__name__, first_line(error)
    if is_out_of_memory(error):
        found = _ALLOCATOR.search(text)
        return "out of memory" + (f": {int(found[1]):,} bytes requested" if found else "")
    return f"{kind}: {text}" if text else kind


def first_line(error: BaseException, longest: int = _LONGEST) -> str:
    """Returns the first line of an exception's text, without colors; empty if it has none, or raises.

    If that line ends with a colon, as in "Error(s) in loading state_dict for Linear:", the next ones follow.

    Args:
        error: the exception.
        longest: number of characters that are kept.
    """
    try:
        text = _ANSI.sub("", str(error))
    except Exception:  # noqa: BLE001 - a class of the user
        return ""
    line, *others = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if line.endswith(":"):
        line = " ".join([line, *others])
    line = _ENFORCE.sub("", line)
    if isinstance(error, ImportError):
        line = _MODULE_FILE.sub("", line)
    if isinstance(error, AttributeError):
        line = _PARTIAL_MODULE_FILE.sub(r"\1", line)
    return line if len(line) <= longest else f"{line[:longest]}..."


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python or torch could not allocate memory."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "DefaultCPUAllocator: " in first_line(error)
    )


def did_you_mean(word: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns a question about the closest of the known words; empty if none is close.

    Args:
        word: the word as written.
        known: the candidates.
        cutoff: the least similarity, between 0 and 1.
    """
    near = nearest(word, known, cutoff)
    return f"did you mean {near!r}?" if near else ""


def nearest(word: object, known: Iterable[str], cutoff: float) -> str:
    """Returns the closest of the known words, as `did_you_mean`; empty if none is close."""
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word).lower(), lowered, n=1, cutoff=cutoff)
    return lowered[near[0]] if near else ""


def shortened(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Returns a text whose middle is omitted if it is long, as are names in a damaged file."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def printable(text: str) -> str:
    """Returns a text whose control characters, line breaks and undecodable bytes are escaped."""
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )
