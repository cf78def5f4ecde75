# SPDX-License-Identifier: Apache-2.0
"""The peer's test suite, lowered by both: repeats the measurements of docs/mps_differential.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.peer.classes import BETTER, CLASSES, EQUAL, WORSE, classify
from tests.peer.differential import FAILS, RIGHT, STOPS, WRONG, Comparison, Side, same_values
from tests.peer.differential import compare as lowered_by_both
from tests.peer.differential_page import parse, parse_defects, render, rows_of
from tests.peer.suite import PeerTest, peer_tests, record

PAGE = (Path(__file__).parents[2] / "docs" / "mps_differential.md").read_text(encoding="utf-8")
ROWS = parse(PAGE)
HELP = "run `bazel run //tests/peer:differential_page`, and check the changes"


def _belongs(row: str, test: PeerTest) -> bool:
    name, _, number = row.rsplit(" (", 1)[0].partition(" ")
    return name == test.name and (not number or number.isdigit())


@pytest.mark.parametrize("test", peer_tests(), ids=lambda test: test.name)
def test_the_page_is_up_to_date(test: PeerTest) -> None:
    found: dict[str, tuple[str, ...]] = {}
    for case in record(test):
        found |= rows_of(case.name, lowered_by_both(case))
    assert found
    assert found == {name: row for name, row in ROWS.items() if _belongs(name, test)}, HELP


def test_the_page_is_as_it_is_rendered_and_has_every_test() -> None:
    assert render(ROWS, parse_defects(PAGE)) == PAGE
    tests = peer_tests()
    owners = {row: [test.name for test in tests if _belongs(row, test)] for row in ROWS}
    assert all(len(names) == 1 for names in owners.values())
    assert {names[0] for names in owners.values()} == {test.name for test in tests}


def test_every_row_has_a_class_and_no_reason_is_unknown() -> None:
    kinds = Counter(row[-2] for row in ROWS.values())
    assert kinds.keys() <= {*CLASSES, "no case"}
    assert sum(kinds.values()) > 250
    assert [name for name, row in ROWS.items() if "UNKNOWN" in row[-1]] == []
    assert "UNKNOWN" not in PAGE
    assert [name for name, row in ROWS.items() if row[-2] == WORSE] == []


VALUE = torch.tensor([1.0, 2.0])
SIDE = Side(1, (), Counter(Add=1), Counter(View=1), Counter(), RIGHT, "", (VALUE,))


@pytest.mark.parametrize(
    ("peer", "ours", "kind"),
    [
        (SIDE, SIDE, EQUAL),
        (replace(SIDE, result=WRONG), SIDE, BETTER),
        (replace(SIDE, result=STOPS), SIDE, BETTER),
        (replace(SIDE, result=FAILS), SIDE, BETTER),
        (replace(SIDE, delegates=2), SIDE, BETTER),
        (replace(SIDE, left=("aten.sin",)), SIDE, BETTER),
        (replace(SIDE, compute=Counter(Add=2)), SIDE, BETTER),
        (SIDE, replace(SIDE, result=WRONG, values=(VALUE + 1,)), WORSE),
        (SIDE, replace(SIDE, result=STOPS, values=()), WORSE),
        (SIDE, replace(SIDE, delegates=2), WORSE),
        (SIDE, replace(SIDE, delegates=0, left=("aten.add",)), WORSE),
        (SIDE, replace(SIDE, left=("aten.add",)), WORSE),
        (SIDE, replace(SIDE, compute=Counter(Add=2)), WORSE),
        (SIDE, replace(SIDE, compute=Counter(Sub=1)), WORSE),
        (SIDE, replace(SIDE, moves=Counter(View=1, Slice=1)), WORSE),
        (SIDE, replace(SIDE, constants=Counter([((), "torch.float32", b"\x00\x00\x80\x3f")])), WORSE),
    ],
)
def test_worse_results_are_classified(peer: Side, ours: Side, kind: str) -> None:
    assert classify(Comparison("fp32", peer, ours)).kind == kind


def test_values_that_differ_are_not_the_same() -> None:
    assert same_values([VALUE], [VALUE.clone()], 0.0)
    assert not same_values([VALUE], [VALUE + 1e-3], 1e-4)
    assert not same_values([VALUE], [VALUE.double()], 1e-4)
    assert not same_values([VALUE], [VALUE[None]], 1e-4)
    assert not same_values([VALUE], [], 1e-4)
    assert not same_values([VALUE * torch.nan], [VALUE], 1e-4)
    assert not same_values([VALUE.int()], [VALUE.int() + 1], 1e-4)
