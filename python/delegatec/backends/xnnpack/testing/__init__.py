# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: lower a module for the XNNPACK delegate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from delegatec.backends.common import testing
from delegatec.backends.common.record import Record
from delegatec.backends.common.testing import Compiled
from delegatec.backends.common.testing.recording import recorded
from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.backends.xnnpack.building.draft import Draft
from delegatec.backends.xnnpack.operands import OPERATION_NAMES
from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.delegation import Part


def compile_module(
    module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None, **options: str
) -> Compiled:
    """Exports a module for example inputs and lowers it for the delegate."""
    preserved = XNNPACK.preserved_operators()
    return testing.compile_module("xnnpack", module, args, preserved, dynamic_shapes, **options)


@contextmanager
def recorded_lowerings() -> Iterator[Record]:
    """Records the operations that each row emits, and the rewrites that are applied."""
    write = Draft.blob
    with recorded(TABLE, REWRITES) as record:

        def blob(draft: Draft) -> list[Part]:
            for step in draft.steps:
                for origin in step.origins[:1]:  # the others are clamps inside
                    record.rows[str(origin.target)].add(OPERATION_NAMES[step.node.operationType])
            return write(draft)

        with patch.object(Draft, "blob", blob):
            yield record
