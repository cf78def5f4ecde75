# SPDX-License-Identifier: Apache-2.0
"""The check of one architecture, for the portable program and the MPS program."""

from __future__ import annotations

from tests.architectures.case import Case
from tests.architectures.measure import measure
from tests.architectures.page import Cells, counts

_HELP = "run `bazel run //tests/architectures:table`, and check the changes"


def check(case: Case, row: Cells) -> None:
    """Measures a case; fails if it departs from eager mode, or from its row in docs/architectures.md."""
    found = measure(case)
    assert found.portable.relative <= case.tolerance
    assert found.mps.relative <= case.mps_tolerance
    assert found.planned <= 1.15 * found.bound  # ERNIE 4.5: 1.123, of tensors of a few hundred bytes
    assert {column: row[column] for column in counts(found)} == counts(found), _HELP
