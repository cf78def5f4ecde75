# SPDX-License-Identifier: Apache-2.0
"""The documentation page of the operator table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from delegatec.backends.common.pages import operators_page
from delegatec.backends.common.record import Record
from delegatec.backends.mlx.operators.rewrites import REWRITES
from delegatec.backends.mlx.operators.table import TABLE

RECORD: Final = Path(__file__).with_name("recorded.json")
"""Operations emitted by rows and rewrites; written by the tests of this directory."""


def render_markdown() -> str:
    """Returns the page of the MLX delegate."""
    folder = "python/delegatec/backends/mlx/operators"
    return operators_page(TABLE, REWRITES, Record.read(RECORD), "MLX", folder)
