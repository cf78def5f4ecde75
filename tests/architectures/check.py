# SPDX-License-Identifier: Apache-2.0
"""The check of one architecture: for the portable and the MPS program, or for that of another backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.architectures.case import Case
from tests.architectures.measure import Whole, measure, measure_mlx, measure_xnnpack
from tests.architectures.page import Cells, counts, mlx_counts, xnnpack_counts

_HELP = "run `bazel run //tests/architectures:table`, and check the changes"
_OF_ONE: Final = "run `bazel run //tests/architectures:table -- --{}`, and check the changes"

Measure = Callable[[Case], Whole]
COLUMNS: Final[dict[str, tuple[Measure, Callable[[Whole], dict[str, str]]]]] = {
    "MLX": (measure_mlx, mlx_counts),
    "XNNPACK": (measure_xnnpack, xnnpack_counts),
}
"""Column of docs/architectures.md for one backend -> what measures it, and its cells."""


def check(case: Case, row: Cells) -> None:
    """Measures a case; fails if it departs from eager mode, or from its row in docs/architectures.md."""
    found = measure(case)
    assert found.portable.relative <= case.tolerance
    assert found.mps.relative <= case.mps_tolerance
    assert found.planned <= 1.15 * found.bound  # ERNIE 4.5: 1.123, of tensors of a few hundred bytes
    assert {column: row[column] for column in counts(found)} == counts(found), _HELP


def check_column(column: str, case: Case, row: Cells) -> Whole:
    """Measures a case for one backend; fails if it departs from eager mode, or from its row.

    Args:
        column: of `COLUMNS`.
        case: the case.
        row: its row in docs/architectures.md.

    Returns:
        What was measured.
    """
    measure_it, cells = COLUMNS[column]
    found = measure_it(case)
    assert found.error.relative <= case.tolerance
    assert row[column] == cells(found)[column], _OF_ONE.format(column.lower())
    return found
