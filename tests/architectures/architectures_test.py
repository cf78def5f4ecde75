# SPDX-License-Identifier: Apache-2.0
"""Architectures end to end against eager mode, and docs/architectures.md is up to date.

A sample, of which a fifth runs by default; `rest_all_test` has the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.check import check
from tests.architectures.measure import Error, difference, refusal
from tests.architectures.page import parse, render
from tests.architectures.sampled import SAMPLED

TEXT = (Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8")
PAGE = parse(TEXT)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_it_agrees_with_eager_mode(case: Case) -> None:
    check(case, PAGE[case.name])


@pytest.mark.parametrize("case", [case for case in CASES if case.refusal], ids=lambda case: case.name)
def test_it_is_rejected_by_name(case: Case) -> None:
    assert case.refusal is not None
    assert refusal(case) == case.refusal[0]
    assert PAGE[case.name]["code"] == case.refusal[0]


def test_the_page_has_no_other_rows() -> None:
    assert set(PAGE) - {"column", "---", "architecture"} == {case.name for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_page_is_that_of_its_cells() -> None:
    assert render({case: PAGE[case.name] for case in CASES}) == TEXT


def test_a_wrong_number_is_found() -> None:
    case = next(case for case in CASES if case.name == "BERT")
    inputs = case.examples()
    module = case.module()
    right = module(**inputs).last_hidden_state
    wrong = right.clone()
    wrong[0, 0, 0] += 1e-3
    assert difference(right, right) == Error(0.0, 0.0)
    assert difference(wrong, right).relative > case.tolerance
    assert difference(right[:1], right).relative == float("inf")
    assert float(right.std()) > 0.1
