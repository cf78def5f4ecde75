# SPDX-License-Identifier: Apache-2.0
"""Capabilities on both sides of each limit. `tests/oracle/vela_test.py` compares the cases with Vela."""

from __future__ import annotations

import pytest

from delegatec.backends.arm.capabilities.families import FAMILIES, problem, unfused
from delegatec.backends.arm.capabilities.testing import Case, build
from delegatec.backends.arm.capabilities.testing.cases import CASES


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_side_of_each_limit(case: Case, family: str) -> None:
    builder = build(case)
    problems = [problem(family, each) for each in builder.operations]
    problems.append(unfused(family, builder.operations, builder.outputs))
    found = [each for each in problems if each is not None]
    verdict = case.verdicts[family == "u85"]
    assert bool(found) == (verdict != "yes"), found
    assert all(f"Ethos-{family.upper()}" in each for each in found)


def test_reasons_name_the_operator_and_the_limit() -> None:
    cases = {str(case): case for case in CASES}
    (name,) = (each for each in cases if each.startswith("AVG_POOL2D INT8[2,"))
    assert problem("u55", build(cases[name]).operations[0]) == (
        "AVG_POOL2D on Ethos-U55: batch size 2, more than 1"
    )
