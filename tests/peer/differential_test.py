# SPDX-License-Identifier: Apache-2.0
"""The peer's test suite, lowered by both: repeats the measurements of recorded.json."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from tests.peer.classes import BETTER, CLASSES, EQUAL, WORSE, classify
from tests.peer.differential import FAILS, RIGHT, STOPS, WRONG, Comparison, Side, same_values
from tests.peer.differential import compare as lowered_by_both
from tests.peer.differential_page import DOCS, RECORD, SECTION, render, rows_of, summary
from tests.peer.suite import PeerTest, peer_tests, record
from tests.records.records import read, section, text_of

RECORDED = read(RECORD)
ROWS = RECORDED["cases"]
HELP = "run `bazel run //tests/peer:differential_page`, and check the changes"


def _belongs(row: str, test: PeerTest) -> bool:
    name, _, number = row.rsplit(" (", 1)[0].partition(" ")
    return name == test.name and (not number or number.isdigit())


@pytest.mark.sampled(9)
@pytest.mark.parametrize("test", peer_tests(), ids=lambda test: test.name)
def test_the_record_is_up_to_date(test: PeerTest) -> None:
    found: dict[str, tuple[str, ...]] = {}
    for case in record(test):
        found |= rows_of(case.name, lowered_by_both(case))
    assert found
    assert found == {name: row for name, row in ROWS.items() if _belongs(name, test)}, HELP


def test_the_summary_is_up_to_date() -> None:
    assert section(DOCS, SECTION) == summary(*RECORDED.values()), HELP
    assert RECORD.read_text(encoding="utf-8") == text_of(RECORDED)


def test_the_page_has_every_row() -> None:
    page = render(*RECORDED.values())
    for name in [*ROWS, *RECORDED["defects"]]:
        assert page.count(f"\n| `{name}` |") == 1, name


def test_the_record_has_every_test() -> None:
    tests = peer_tests()
    owners = {row: [test.name for test in tests if _belongs(row, test)] for row in ROWS}
    assert all(len(names) == 1 for names in owners.values())
    assert {names[0] for names in owners.values()} == {test.name for test in tests}


def test_every_row_has_a_class_and_no_reason_is_unknown() -> None:
    kinds = Counter(row[-2] for row in ROWS.values())
    assert kinds.keys() <= {*CLASSES, "no case"}
    assert sum(kinds.values()) > 250
    assert [name for name, row in ROWS.items() if "UNKNOWN" in row[-1]] == []
    assert "UNKNOWN" not in RECORD.read_text(encoding="utf-8")
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
