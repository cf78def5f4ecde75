# SPDX-License-Identifier: Apache-2.0
"""Every architecture for XNNPACK, in the stock runtime, against eager mode: minutes, so by hand."""

from __future__ import annotations

import pytest

from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.measure import measure_xnnpack


@pytest.mark.parametrize("case", [case for case in CASES if not case.refusal], ids=lambda case: case.name)
def test_it_agrees_with_eager_mode(case: Case) -> None:
    found = measure_xnnpack(case)
    print(f"{case.name}: {found}")
    assert found.error.relative <= max(case.tolerance, 1e-5)
