# SPDX-License-Identifier: Apache-2.0
"""Computation with symbolic sizes that must not specialize them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, _ShapeEnvGuardError

from delegatec.diagnostics.quiet import quiet_logs
from delegatec.edge.builder import Builder
from delegatec.edge.symbols import UnknownSizeError

NEEDS_VALUE: Final = (GuardOnDataDependentSymNode, UnknownSizeError, _ShapeEnvGuardError)
"""What code raises that needs the value of a symbolic size."""


@contextmanager
def no_new_guards(builder: Builder) -> Iterator[None]:
    """Makes comparisons of symbolic sizes raise if they would specialize a dynamic size.

    Shortcuts in torch that depend on such a comparison ("is this size 1?") are not used.
    """
    shape_env = builder.fake_mode.shape_env
    if shape_env is None:
        yield
        return
    oblivious = _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    oblivious = _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    # torch logs the errors
    with quiet_logs(logging.ERROR), shape_env.error_on_new_guards(), oblivious:
        yield
