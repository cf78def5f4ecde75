# SPDX-License-Identifier: Apache-2.0
"""TOSA specifications: a version, profiles, extensions and a level, as in "TOSA-1.0+INT+int16"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FORM: Final = "TOSA-1.0+PROFILE[+PROFILE][+EXTENSION]..."
_VERSION: Final = re.compile(r"tosa-(\d+)\.(\d+)(?:\.\d+)?\Z")
_VERSIONS: Final = frozenset({(1, 0), (1, 1)})
_RENAMED: Final = {(0, 80): {"bi": ("int",), "mi": ("int", "fp")}}
"""Versions whose profiles have other names since 1.0."""
_NEEDS: Final[dict[str, str]] = {
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
    "random": "fp",
    "blockscale_ue5m3": "fp",
}
"""Extension -> the profile that it extends, if it is one."""
_LATER: Final = frozenset({"shape", "int64", "mxfp", "random", "blockscale_ue5m3"})
"""Extensions since version 1.1."""
_MARKS: Final = frozenset({"u55", "u65", "u85"})


@dataclass(frozen=True)
class TosaSpecification:
    """What a consumer of TOSA graphs supports.

    Attributes:
        version: major and minor.
        integer: whether it includes the INT profile.
        floating: whether it includes the FP profile.
        extensions: lower case, such as "int16", "int4", "bf16", "cf" (control flow).
        mark: "u55", "u65" or "u85" if graphs are for an Ethos-U of that family; empty otherwise.
        level_8k: whether sizes are limited as in the level 8K of the specification.
    """

    version: tuple[int, int]
    integer: bool
    floating: bool
    extensions: frozenset[str] = frozenset()
    mark: str = ""
    level_8k: bool = True

    @classmethod
    def parse(cls, text: str) -> TosaSpecification:
        """Parses a specification; letters of any case.

        Profiles BI and MI of version 0.80 are INT, and INT with FP, of version 1.0.

        Raises:
            ValueError: with all problems of the text.
        """
        head, *words = text.strip().lower().split("+")
        matched = _VERSION.match(head)
        if matched is None:
            raise ValueError(f"{text!r} is not of the form {_FORM}")
        version = (int(matched[1]), int(matched[2]))
        renamed = _RENAMED.get(version, {})
        if renamed:
            version = (1, 0)
            words = [each for word in words for each in renamed.get(word, (word,))]
        problems = [] if version in _VERSIONS else [f"version {matched[1]}.{matched[2]} is not 1.0 or 1.1"]
        profiles = {"int", "fp"} & {*words}
        if not profiles:
            problems.append(f"it has no profile, {' or '.join(map(str.upper, renamed)) or 'INT or FP'}")
        extensions = {*words} - {"int", "fp", "8k"} - _MARKS
        problems += [f"unknown extension {each!r}" for each in sorted(extensions - {*_NEEDS})]
        problems += [
            f"{each} extends the profile {_NEEDS[each].upper()}, which is absent"
            for each in sorted(extensions & {*_NEEDS})
            if profiles and _NEEDS[each] not in ("", *profiles)
        ]
        problems += [
            f"the extension {each} needs version 1.1"
            for each in sorted(extensions & _LATER)
            if version < (1, 1)
        ]
        marks = sorted(_MARKS & {*words})
        if len(marks) > 1:
            problems.append(f"it is for {' and '.join(marks)} at once")
        if problems:
            raise ValueError(f"{text!r}: {'; '.join(problems)}")
        return cls(version, "int" in profiles, "fp" in profiles, frozenset(extensions), "".join(marks))

    def __str__(self) -> str:
        """Returns the canonical text."""
        version = f"TOSA-{self.version[0]}.{self.version[1]}"
        profiles = [name for name, has in (("INT", self.integer), ("FP", self.floating)) if has]
        return "+".join([version, *profiles, *sorted(self.extensions), *filter(None, [self.mark])])
