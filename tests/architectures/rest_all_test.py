# SPDX-License-Identifier: Apache-2.0
"""The architectures that `architectures_test` leaves out, end to end: ten minutes, so by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.case import Case
from tests.architectures.check import check
from tests.architectures.page import parse
from tests.architectures.sampled import REST

PAGE = parse((Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REST, ids=lambda case: case.name)
def test_it_agrees_with_eager_mode(case: Case) -> None:
    check(case, PAGE[case.name])
