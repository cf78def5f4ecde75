# SPDX-License-Identifier: Apache-2.0
"""The weight cache of the stock runtime's XNNPACK delegate, which its Python API cannot turn on."""

from __future__ import annotations

import ctypes
import multiprocessing
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from executorch.extension.pybindings import _portable_lib

_SECONDS: Final = 240
# `BackendOption`: a key of 64 bytes, and a variant whose largest member has 256 bytes and whose index follows
# (runtime/backend/options.h of ExecuTorch 1.4.1). Index 0 is a bool.
_OPTION: Final = struct.Struct("<64s?255xB3x")
_SPAN: Final = struct.Struct("@PN")
_SET_OPTION: Final = (
    "_ZN10executorch8backends14XnnpackBackend10set_optionERNS_7runtime20BackendOptionContextE"
    "RKNS2_4SpanINS2_13BackendOptionEEE"
)
_GET_BACKEND: Final = "_ZN10executorch7runtime17get_backend_classEPKc"


def with_weight_cache(work: Callable[[], None]) -> None:
    """Calls a function in a forked process, in which delegates share packed weights.

    Args:
        work: the function; nothing may have run in the runtime before the fork.

    Raises:
        AssertionError: it has failed, or the process has crashed.
    """
    process = multiprocessing.get_context("fork").Process(target=_run, args=(work,))
    process.start()
    process.join(_SECONDS)
    if process.is_alive():
        process.kill()
    assert process.exitcode == 0, f"the process ends with {process.exitcode}"


def _run(work: Callable[[], None]) -> None:
    turn_on()
    work()


def turn_on() -> None:
    """Turns the cache on for programs that are loaded from now on."""
    path = Path(_portable_lib.__file__)
    backend = _function(path, _GET_BACKEND)
    backend.restype = ctypes.c_void_p
    found = backend(b"XnnpackBackend")
    assert found
    option = ctypes.create_string_buffer(_OPTION.pack(b"weight_cache_enabled", True, 0), _OPTION.size)
    span = ctypes.create_string_buffer(_SPAN.pack(ctypes.addressof(option), 1), _SPAN.size)
    context = ctypes.create_string_buffer(64)  # larger than `BackendOptionContext`, which is empty
    set_option = _function(path, _SET_OPTION)
    set_option.argtypes = [ctypes.c_void_p] * 3
    error = set_option(found, ctypes.addressof(context), ctypes.addressof(span))
    assert error == 0, f"error {error}"


def _function(path: Path, name: str) -> ctypes._CFuncPtr:
    """Returns a function of the runtime, which is in one of the wheel's libraries."""
    root = path.parents[2]
    for library in [path, *sorted(root.rglob("*.so"))]:
        try:
            return ctypes.CDLL(str(library))[name]
        except (AttributeError, OSError):
            continue
    raise AssertionError(f"no library of the runtime has {name}")
