# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that lets torch visit its registered operators once, and again if there are others.

For each decomposition of a program, torch makes attributes of all composite operators, as often as there are
namespaces: a quarter of the time of tests that compare small programs with those of the peer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

_MODULE = "torch._export.utils"
_FUNCTION = "_materialize_cpp_cia_ops"
_KEY = "CompositeImplicitAutograd"


def pytest_collection_finish() -> None:
    """Replaces torch's function, if torch is imported."""
    utils = sys.modules.get(_MODULE)
    if utils is not None:
        names = vars(utils)
        names[_FUNCTION] = _if_changed(names[_FUNCTION])


def _if_changed(materialize: Callable[[], None]) -> Callable[[], None]:
    import torch

    done: list[str] = []

    def materialize_if_changed() -> None:
        registered = torch._C._dispatch_get_registrations_for_dispatch_key(_KEY)
        if registered != done:
            materialize()
            done[:] = registered

    return materialize_if_changed
