# SPDX-License-Identifier: Apache-2.0
"""Further flags of Vela."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

_KNOWN: Final = (
    "--arena-cache-size",
    "--cpu-tensor-alignment",
    "--disable-buffering",
    "--disable-cascading",
    "--disable-chaining",
    "--disable-fwd",
    "--disable-ifm-reuse",
    "--experimental-softmax-int16-neg-exp-range",
    "--force-symmetric-int-weights",
    "--hillclimb-max-iterations",
    "--max-block-dependency",
    "--optimise",
    "--recursion-limit",
    "--tensor-allocator",
)
_OURS: Final = {
    "--accelerator-config": "the option accelerator",
    "--config": "the option config",
    "--memory-mode": "the option memory_mode",
    "--output-dir": "the build",
    "--output-format": "the runtime, which reads the raw format",
    "--system-config": "the option system_config",
    "--cop-format": "the runtime, which reads COP1",
    "--separate-io-regions": "the runtime, which reads COP1",
}
"""Flag -> what determines it."""


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
        if problems:
            raise ValueError("; ".join(problems))
        return cls(tuple(found))

    def __str__(self) -> str:
        """Returns the canonical text."""
        return shlex.join(self.words)


def _problem(word: str) -> str:
    flag = word.split("=")[0]
    if flag in _OURS:
        return f"{flag} is determined by {_OURS[flag]}"
    return "" if flag in _KNOWN else f"unknown flag {word!r}, not one of {', '.join(_KNOWN)}"
