# SPDX-License-Identifier: Apache-2.0
"""Changes of inputs that must not affect a program: random numbers, and the clock."""

from __future__ import annotations

import datetime
import random
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy
import torch

Clocks = Sequence[tuple[dict[str, Any], str, Any]]
"""References to clocks: the names of a module, one of them, and the clock."""

# Seconds: far more than float32 distinguishes in the time since 1970.
_SHIFT: Final = 123_456_789
_SEED: Final = 0x5EED
# Of a module of a library, by identity: its names, their number, and those that are clocks.
_OF_LIBRARIES: Final[dict[int, tuple[dict[str, Any], int, list[str]]]] = {}
_SECONDS: Final = ("time", "monotonic", "perf_counter", "process_time")


def clocks() -> Clocks:
    """Returns the clocks of the modules that define them, and of those that imported them by name.

    Python writes to each object that it looks at, and a process that shares its memory with a copy pays for
    each page: names of libraries are looked at once.
    """
    wanted = {id(clock) for clock in _replacements()}
    found: list[tuple[dict[str, Any], str, Any]] = []
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if type(names) is not dict:
            continue
        known = _OF_LIBRARIES.get(id(names))
        looked_at = list(names) if known is None or known[1] != len(names) else known[2]
        own = [name for name in looked_at if id(names.get(name)) in wanted]
        if looked_at and _is_of_library(names):
            _OF_LIBRARIES[id(names)] = (names, len(names), own)
        found += [(names, name, names[name]) for name in own]
    return found


def _is_of_library(names: dict[str, Any]) -> bool:
    """Whether a module is installed: its names stay what they are, unlike those of a notebook."""
    root = str(names.get("__name__")).partition(".")[0]
    return root in sys.stdlib_module_names or "site-packages" in str(names.get("__file__"))


def other_chance(found: Clocks) -> None:
    """Reseeds generators, and shifts the clock, for the rest of this process.

    The operating system's random numbers differ anyway. The results of a module must not change, since a
    program contains the values that torch.export saw.

    Args:
        found: the clocks of this process.
    """
    random.seed(_SEED)
    numpy.random.seed(_SEED)
    torch.manual_seed(_SEED)
    replaced = _replacements()
    for names, name, clock in found:
        names[name] = replaced[clock]


def _replacements() -> dict[Any, Any]:
    """Returns clock -> one that is ahead of it."""
    replaced: dict[Any, Any] = {datetime.datetime: _LaterDatetime}
    for name in _SECONDS:
        for function, shift in ((name, _SHIFT), (f"{name}_ns", _SHIFT * 10**9)):
            original = getattr(time, function)
            replaced[original] = _shifted(original, shift)
    return replaced


def _shifted(original: Any, shift: int) -> Any:
    return lambda: original() + shift


class _LaterDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> _LaterDatetime:
        return super().now(tz) + datetime.timedelta(seconds=_SHIFT)

    @classmethod
    def utcnow(cls) -> _LaterDatetime:
        return super().utcnow() + datetime.timedelta(seconds=_SHIFT)

    @classmethod
    def today(cls) -> _LaterDatetime:
        return super().today() + datetime.timedelta(seconds=_SHIFT)
