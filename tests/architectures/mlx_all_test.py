# SPDX-License-Identifier: Apache-2.0
"""Every architecture for MLX, in its reference executor, against eager mode: minutes, so by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.check import check_column
from tests.architectures.page import parse

PAGE = parse((Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8"))
SUPPORTED = [case for case in CASES if not case.refusal]


@pytest.mark.parametrize("case", SUPPORTED, ids=lambda case: case.name)
def test_it_agrees_with_eager_mode(case: Case) -> None:
    check_column("MLX", case, PAGE[case.name])
