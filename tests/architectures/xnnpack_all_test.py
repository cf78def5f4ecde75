# SPDX-License-Identifier: Apache-2.0
"""Every architecture for XNNPACK, in the stock runtime, against eager mode: minutes, so by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.check import check_column
from tests.architectures.measure import measure_fp16
from tests.architectures.page import parse

PAGE = parse((Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8"))
SUPPORTED = [case for case in CASES if not case.refusal]
HELP = "run `bazel run //tests/architectures:table -- --xnnpack`, and check the changes"


@pytest.mark.parametrize("case", SUPPORTED, ids=lambda case: case.name)
def test_it_agrees_with_eager_mode(case: Case) -> None:
    check_column("XNNPACK", case, PAGE[case.name])


@pytest.mark.parametrize("case", SUPPORTED, ids=lambda case: case.name)
def test_fp16_is_about_as_right_as_eager_mode_in_float16(case: Case) -> None:
    """Choices among close values, as in detectors, differ in eager mode, too."""
    found = measure_fp16(case)
    assert found.relative <= max(3 * (found.eager or 0), 6e-3)
    assert ("saturated" in PAGE[case.name]["XNNPACK fp16"]) == found.saturated, HELP
