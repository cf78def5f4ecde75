# SPDX-License-Identifier: Apache-2.0
"""TOSA specifications: a version, profiles, extensions and a level, as in "TOSA-1.0+INT+int16"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FORM: Final = "TOSA-1.0+PROFILE[+PROFILE][+EXTENSION]..."
_VERSION: Final = re.compile(r"tosa-(\d+)\.(\d+)(?:\.\d+)?\Z")
_VERSIONS: Final = frozenset({(1, 0), (1, 1)})
_OLD: Final = (0, 80)
RENAMED: Final = {"bi": "INT", "mi": "INT+FP"}
"""Profiles of version 0.80 -> those of 1.0."""
EXTENSIONS: Final[dict[str, str]] = {
    "int16": "int",
    "int4": "int",
    "bf16": "fp",
    "fft": "fp",
    "fp8e4m3": "fp",
    "fp8e5m2": "fp",
    "doubleround": "int",
    "inexactround": "int",
    "cf": "",
    "var": "",
    "shape": "",
    "int64": "",
    "mxfp": "fp",
    "mxfp_conv": "fp",
    "random": "fp",
    "blockscale_ue5m3": "fp",
}
"""Extension -> the profile that it extends, if it is one."""
LATER: Final = frozenset({"shape", "int64", "mxfp", "mxfp_conv", "random", "blockscale_ue5m3"})
"""Extensions since version 1.1."""
MARKS: Final = frozenset({"u55", "u65", "u85"})


@dataclass(frozen=True)
class TosaSpecification:
    """The features that a consumer of TOSA graphs supports.

    Attributes:
        version: major and minor.
        integer: whether it includes the INT profile.
        floating: whether it includes the FP profile.
        extensions: lower case, such as "int16", "int4", "bf16", "cf" (control flow).
        mark: "u55", "u65" or "u85" if graphs are for an Ethos-U of that family; empty otherwise.
        level_8k: whether sizes are limited as in level 8K of the specification.
    """

    version: tuple[int, int]
    integer: bool
    floating: bool
    extensions: frozenset[str] = frozenset()
    mark: str = ""
    level_8k: bool = True

    @classmethod
    def parse(cls, text: str) -> TosaSpecification:
        """Parses a specification; case-insensitive.

        Raises:
            ValueError: with all problems of the text.
        """
        head, *words = text.strip().lower().split("+")
        matched = _VERSION.match(head)
        if matched is None:
            raise ValueError(f"{text!r} is not of the form {_FORM}")
        version = (int(matched[1]), int(matched[2]))
        if version == _OLD:
            raise ValueError(f"{text!r} is of version 0.80; write {_renewed(words)} for graphs of 1.0")
        problems = [] if version in _VERSIONS else [f"version {matched[1]}.{matched[2]} is not 1.0 or 1.1"]
        renamed = sorted({*words} & {*RENAMED})
        problems += [f"the profile {each.upper()} is {RENAMED[each]} since version 1.0" for each in renamed]
        profiles = {"int", "fp"} & {*words}
        if not profiles and not renamed:
            problems.append("it has no profile, INT or FP")
        extensions = {*words} - {"int", "fp", "8k", *RENAMED} - MARKS
        problems += [f"unknown extension {each!r}" for each in sorted(extensions - {*EXTENSIONS})]
        problems += [
            f"{each} extends the profile {EXTENSIONS[each].upper()}, which is absent"
            for each in sorted(extensions & {*EXTENSIONS})
            if profiles and EXTENSIONS[each] not in ("", *profiles)
        ]
        problems += [
            f"the extension {each} needs version 1.1"
            for each in sorted(extensions & LATER)
            if version < (1, 1)
        ]
        marks = sorted(MARKS & {*words})
        if len(marks) > 1:
            problems.append(f"it is for {' and '.join(marks)} at once")
        if marks and "fp" in profiles:
            problems.append(f"{marks[0]} has no floating point, and the profile FP is included")
        if problems:
            raise ValueError(f"{text!r}: {'; '.join(problems)}")
        return cls(version, "int" in profiles, "fp" in profiles, frozenset(extensions), "".join(marks))

    def __str__(self) -> str:
        """Returns the canonical text."""
        version = f"TOSA-{self.version[0]}.{self.version[1]}"
        profiles = [name for name, has in (("INT", self.integer), ("FP", self.floating)) if has]
        return "+".join([version, *profiles, *sorted(self.extensions), *filter(None, [self.mark])])


def _renewed(words: Sequence[str]) -> str:
    """Returns the text of version 1.0 for words of version 0.80."""
    renamed = [RENAMED.get(word, word.upper() if word in ("int", "fp") else word) for word in words]
    return "+".join(["TOSA-1.0", *(renamed or ["INT"])])
