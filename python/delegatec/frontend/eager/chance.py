# SPDX-License-Identifier: Apache-2.0
"""Changes of inputs that must not affect a program: random numbers, and the clock."""

from __future__ import annotations

import datetime
import random
import sys
import time
from typing import Any, Final

import numpy
import torch

# Seconds: far more than float32 distinguishes in the time since 1970.
_SHIFT: Final = 123_456_789
_SEED: Final = 0x5EED
_SECONDS: Final = ("time", "monotonic", "perf_counter", "process_time")


def other_chance() -> None:
    """Reseeds generators, and shifts the clock, for the rest of this process.

    The operating system's random numbers differ anyway. The results of a module must not change, since a
    program contains the values that torch.export saw.
    """
    random.seed(_SEED)
    numpy.random.seed(_SEED)
    torch.manual_seed(_SEED)
    replaced: dict[int, Any] = {}
    for name in _SECONDS:
        for function, shift in ((name, _SHIFT), (f"{name}_ns", _SHIFT * 10**9)):
            original = getattr(time, function)
            replaced[id(original)] = _shifted(original, shift)
    replaced[id(datetime.datetime)] = _LaterDatetime
    _replace_imported(replaced)


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


def _replace_imported(replaced: dict[int, Any]) -> None:
    """Replaces functions in the modules that define them, and in those that imported them by name."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if type(names) is dict:
            for name, value in list(names.items()):
                if id(value) in replaced:
                    names[name] = replaced[id(value)]
