# SPDX-License-Identifier: Apache-2.0
"""Further flags of Vela."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics.exceptions import did_you_mean

_NUMERAL: Final = re.compile(r"\d+(\.\d+)?")
_SWITCH: Final[tuple[str, ...]] = ()
_INTEGER: Final = ("INTEGER",)
_NUMBER: Final = ("NUMBER",)
KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "--arena-cache-size": _INTEGER,
    "--cpu-tensor-alignment": ("16", "32", "64", "128", "256", "512", "1024", "2048", "4096"),
    "--disable-buffering": _SWITCH,
    "--disable-cascading": _SWITCH,
    "--disable-chaining": _SWITCH,
    "--disable-fwd": _SWITCH,
    "--disable-ifm-reuse": _SWITCH,
    "--experimental-softmax-int16-neg-exp-range": _NUMBER,
    "--force-symmetric-int-weights": _SWITCH,
    "--hillclimb-max-iterations": _INTEGER,
    "--max-block-dependency": ("0", "1", "2", "3"),
    "--optimise": ("Size", "Performance"),
    "--recursion-limit": _INTEGER,
    "--tensor-allocator": ("LinearAlloc", "Greedy", "HillClimb"),
}
"""Flag -> its values; none for a switch."""
OURS: Final = {
    "--accelerator-config": "the option accelerator",
    "--config": "the option config",
    "--memory-mode": "the option memory_mode",
    "--output-dir": "the build",
    "--output-format": "the runtime, which reads the raw format",
    "--system-config": "the option system_config",
    "--cop-format": "the runtime, which reads COP1",
    "--separate-io-regions": "the runtime, which reads COP1",
}
"""Flag -> the setting that determines it."""


@dataclass(frozen=True)
class Flags:
    """Flags that change the command stream or its estimates, in the user's order.

    Attributes:
        words: each flag with its value, as in "--optimise=Size".
    """

    words: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Flags:
        """Parses flags as a shell does. A value follows `=`, or is the next word.

        Raises:
            ValueError: with all problems.
        """
        found: list[str] = []
        for word in shlex.split(text):
            if found and not word.startswith("--") and "=" not in found[-1]:
                found[-1] += "=" + word
            else:
                found.append(word)
        problems = list(filter(None, map(_problem, found)))
        names = [word.partition("=")[0] for word in found]
        problems += [f"{each} is set twice" for each in dict.fromkeys(names) if names.count(each) > 1]
        if problems:
            raise ValueError("; ".join(problems))
        return cls(tuple(found))

    def __str__(self) -> str:
        """Returns the canonical text."""
        return shlex.join(self.words)


def _problem(word: str) -> str:
    flag, equals, value = word.partition("=")
    if flag in OURS:
        return f"{flag} is determined by {OURS[flag]}"
    if flag not in KNOWN:
        hint = did_you_mean(flag, KNOWN) or f"expected one of {', '.join(KNOWN)}"
        return f"unknown flag {flag!r}: {hint}"
    values = KNOWN[flag]
    if not values:
        return f"{flag} has no value" if equals else ""
    if values == _INTEGER:
        return "" if value.isdecimal() else f"{flag} needs an integer, not {value!r}"
    if values == _NUMBER:
        return "" if _NUMERAL.fullmatch(value) else f"{flag} needs a number, not {value!r}"
    return "" if value in values else f"{flag} is one of {', '.join(values)}, not {value!r}"
