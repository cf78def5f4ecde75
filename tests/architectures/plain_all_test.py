# SPDX-License-Identifier: Apache-2.0
"""Every plain network end to end against eager mode: minutes, so by hand; `architectures_test` has some."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.case import Case
from tests.architectures.check import check
from tests.architectures.page import parse
from tests.architectures.plain import PLAIN

PAGE = parse((Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_it_agrees_with_eager_mode(case: Case) -> None:
    check(case, PAGE[case.name])
