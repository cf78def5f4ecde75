# SPDX-License-Identifier: Apache-2.0
"""A sample of the peer's Arm suite has the recorded outcomes, and the page of Arm those of the record."""

from __future__ import annotations

import zlib
from typing import Final

import pytest

from tests.peer.arm.campaign import Selection, run_case
from tests.peer.arm.collection import ArmCase, arm_modules
from tests.peer.arm.main import executor
from tests.peer.arm.ours import PARTLY, REFUSED, RIGHT, as_it_should_be, wanted
from tests.peer.arm.page import DOCS, SECTION, render, summary
from tests.peer.arm.record import OTHERS, SAMPLE, Recorded, compare, merged, read, record, updated
from tests.records.records import section

HELP: Final = "run `bazel run //tests/peer/arm:campaign` and `:page`, and check the changes"
_KINDS: Final = ("FP", "INT", "refused")
# One case of each kind in one module of this number: half a minute.
_MODULES: Final = 16


def _sample() -> list[str]:
    return [module for module in arm_modules() if zlib.crc32(module.encode()) % _MODULES == 0]


def test_the_summary_is_up_to_date() -> None:
    assert section(DOCS, SECTION) == summary(read()), HELP


def test_the_page_has_every_module() -> None:
    page = render(read())
    for module in read().counts:
        assert page.count(f"\n| `{module.partition('/')[2]}` |") == 1, module


def test_every_case_that_is_not_delegated_has_a_reason() -> None:
    recorded = read()
    for name, (_, status, reason) in recorded.others.items():
        assert reason or status not in (REFUSED, PARTLY), name


@pytest.mark.parametrize("module", _sample())
def test_outcomes_are_those_of_the_record_or_better(module: str) -> None:
    recorded = read()
    for kind in _KINDS:
        case = next(Selection([module], [kind], every=recorded.every[kind]).cases(module), None)
        if case is None:
            continue
        line = run_case(case, executor)
        # A case may become right before the record is renewed.
        good = (recorded.status(case.name, kind), *as_it_should_be(kind))
        assert line["status"] in good, line["reason"]


def test_a_wrong_result_is_found() -> None:
    (case, *_) = Selection(["ops/add"], ["FP"], pattern="add_tensor_tosa_FP.1d_randn").cases("ops/add")
    line = run_case(case, lambda *args: [value + 1 for value in executor(*args)])
    assert line["status"] == "wrong"
    found = record([{**line, "name": case.name, "module": "ops/add"}], {"FP": 1})
    assert found.totals()["FP"] == {"wrong": 1}
    assert found.others[case.name] == ("FP", "wrong", "beyond the tolerance")
    assert (wanted("FP"), wanted("refused")) == (RIGHT, REFUSED)


def test_the_outcomes_of_kinds_are_replaced() -> None:
    old = Recorded(
        {"FP": 1, "INT": 5},
        {"a": {"FP": {"right": 2}}, "b": {"INT": {"wrong": 1}}},
        {"b::x": ("INT", "wrong", "-")},
    )
    new = Recorded({"INT": 1}, {"a": {"INT": {"right": 3}}}, {})
    found = merged(old, new, ["INT"])
    assert found.counts == {"a": {"FP": {"right": 2}, "INT": {"right": 3}}}
    assert (found.every, found.others) == ({"FP": 1, "INT": 1}, {})


def test_the_outcomes_of_single_cases_are_replaced() -> None:
    old = Recorded(
        {"FP": 1, "INT": 1},
        {"a": {"FP": {"right": 2}}, "b": {"INT": {"right": 1, "wrong": 2}}},
        {"b::x": ("INT", "wrong", "-"), "b::y": ("INT", "wrong", "-")},
    )
    lines = [
        {"name": "b::x", "kind": "INT", "module": "b", "status": "right", "reason": ""},
        {"name": "b::y", "kind": "INT", "module": "b", "status": "partly", "reason": "because"},
        {"name": "a::z", "kind": "FP", "module": "a", "status": "wrong", "reason": "-"},
    ]
    found = updated(old, lines)
    assert found.counts == {
        "a": {"FP": {"right": 1, "wrong": 1}},
        "b": {"INT": {"partly": 1, "right": 2}},
    }
    assert found.others == {
        "a::z": ("FP", "wrong", "beyond the tolerance"),
        "b::y": ("INT", "partly", "because"),
    }


def test_the_peer_is_compared_with_ours() -> None:
    lines = {
        "a": {"kind": "U55", "status": "right"},
        "b": {"kind": "U55", "status": "partly"},
        "c": {"kind": "U55", "status": "none"},
    }
    peer = {name: {"status": "accepted", "sample": name != "b"} for name in "abcd"}
    assert compare(lines, peer) == {SAMPLE: {"U55": [1, 1, 1]}, OTHERS: {"U55": [1, 0, 1]}}


def test_a_delegate_that_is_not_expected_needs_right_results() -> None:
    def argmax() -> ArmCase:
        (case,) = Selection(["ops/argmax"], ["refused"], pattern="all_tosa_FP").cases("ops/argmax")
        return case

    assert run_case(argmax(), executor)["status"] == "beyond"
    case = argmax()
    wrong = run_case(case, lambda *args: [value + 1 for value in executor(*args)])
    assert wrong["status"] == "delegated"
    found = record([{**wrong, "name": case.name, "module": "ops/argmax"}], {"refused": 1})
    assert "| 0.0% |" in render(found)
    assert "beyond" in as_it_should_be("refused") and "delegated" not in as_it_should_be("refused")
