# SPDX-License-Identifier: Apache-2.0
"""A sample of the peer's XNNPACK suite, lowered by both, has the rows of recorded.json."""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
import torch

from tests.oracle.oracle import OracleProgram
from tests.peer.xnnpack.collection import PeerTest, peer_modules, peer_tests, record
from tests.peer.xnnpack.page import DOCS, RECORD, SECTION, render, row, same_on_all_hosts, summary
from tests.peer.xnnpack.rows import BETTER, CLASSES, EQUAL, NEITHER, NO_CASE, OTHER, WORSE, classify
from tests.peer.xnnpack.sides import FAILS, NONE, OURS, PEER, RIGHT, STOPS, WRONG, Side, difference, side
from tests.peer.xnnpack.torchvision_models import torchvision_in
from tests.records.records import read, section, text_of

_ROWS: Final = read(RECORD)["cases"]
_HELP: Final = "run `bazel run //tests/peer/xnnpack:page`, and check the changes"
# One test in as many: half a minute.
_EVERY: Final = 24
# Tests with worse cases, all open: a product of integers may be one quantization step apart, and float16
# values that are quantized at run time may get another quantized value. The peer leaves the quantization
# outside, or fails. Inception with random weights: both are about as far from eager mode as that is from
# float64, ours by a quarter farther than the peer, and nearer in the test with dynamic sizes.
_OPEN: Final = {
    "models/inception_v3.fp32_ic3",
    "ops/linear.linear_qc8_as_fp32",
    *("ops/linear.qd8_f16_per_tensor_linear", "ops/linear.qd8_f32_per_tensor_linear"),
}
SIDE: Final = Side(RIGHT, 1, ("aten::where.self_out",))


def _sample() -> list[PeerTest]:
    measured = {name.partition(" ")[0] for name in _ROWS}
    modules = sorted({name.partition(".")[0] for name in measured})
    small = [module for module in modules if module.startswith(("fragments/", "ops/", "passes/"))]
    tests = [test for module in small for test in peer_tests(module)]
    return [t for t in tests if t.name in measured and zlib.crc32(t.name.encode()) % _EVERY == 0]


@pytest.mark.parametrize("test", _sample(), ids=lambda test: test.name)
def test_the_record_is_up_to_date(test: PeerTest) -> None:
    torch.set_num_threads(1)
    for case in [case for case in record(test) if case.name in _ROWS][:2]:
        found = row({compiler: side(case, compiler) for compiler in (PEER, OURS)})
        assert same_on_all_hosts(found) == same_on_all_hosts(_ROWS[case.name]), _HELP


def test_the_summary_is_up_to_date() -> None:
    assert section(DOCS, SECTION) == summary(_ROWS), _HELP
    assert RECORD.read_text(encoding="utf-8") == text_of({"cases": _ROWS})


def test_the_page_has_every_row() -> None:
    _, _, cases = render(_ROWS).partition("## Cases\n")
    assert [name for name in _ROWS if cases.count(f"\n| {name} |") != 1] == []


def test_worse_cases_are_the_known_ones() -> None:
    kinds = Counter(cells[-2] for cells in _ROWS.values())
    assert kinds.keys() <= CLASSES.keys()
    assert {name.partition(" ")[0] for name, cells in _ROWS.items() if cells[-2] == WORSE} == _OPEN


def test_the_suite_is_complete() -> None:
    """Tests are recorded from all of the peer's directories; a new version of it may have others."""
    tests = [test.name for module in peer_modules() for test in peer_tests(module)]
    assert len(set(tests)) == len(tests) >= 250
    assert {name.partition("/")[0] for name in tests} >= {"fragments", "ops", "passes"}


def test_models_of_torchvision_have_no_checkpoints(tmp_path: Path) -> None:
    """A package that needs its extension when it is imported, and a checkpoint when a model is made."""
    models = tmp_path / "torchvision" / "models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").write_text(
        "import torch\ntorch.library.register_fake('torchvision::nms', lambda *args: args[0])\n"
    )
    (models / "__init__.py").touch()
    (models / "_api.py").write_text(
        "class WeightsEnum:\n    @classmethod\n    def verify(cls, weights):\n        return weights\n"
    )
    before = list(sys.path)
    with patch.dict(sys.modules):
        with torchvision_in(tmp_path):
            weights = sys.modules["torchvision.models._api"].WeightsEnum
            assert weights.verify("IMAGENET1K_V1") is None
        assert weights.verify("IMAGENET1K_V1") == "IMAGENET1K_V1"
    assert sys.path == before


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (test,) = [test for test in peer_tests("ops/floor") if test.method == "test_fp32_floor"]
    cases = record(test)
    assert [side(case, OURS).result for case in cases] == [RIGHT] * len(cases)
    run = OracleProgram.run
    monkeypatch.setattr(OracleProgram, "run", lambda *args: [value + 1 for value in run(*args)])
    assert [side(case, OURS).result for case in cases] == [WRONG] * len(cases)


@pytest.mark.parametrize(("compiler", "result"), [(PEER, WRONG), (OURS, RIGHT)])
def test_rows_of_one_scale(compiler: str, result: str) -> None:
    """The peer quantizes each row alone: rows that are all the same have one scale in both forms."""
    tests = peer_tests("quantizer/xnnpack_quantizer")
    (test,) = [test for test in tests if test.method == "test_dynamic_linear"]
    case = record(test)[0]
    ((rows,),) = case.inputs
    assert side(case, compiler).result == result
    alone = [(row.expand_as(rows).contiguous(),) for row in rows]
    assert side(replace(case, inputs=alone), compiler).result == RIGHT


@pytest.mark.parametrize(
    ("peer", "ours", "kind"),
    [
        (SIDE, SIDE, EQUAL),
        (replace(SIDE, result=WRONG), SIDE, BETTER),
        (replace(SIDE, result=STOPS), SIDE, BETTER),
        (replace(SIDE, result=FAILS), SIDE, BETTER),
        (replace(SIDE, delegates=2), SIDE, BETTER),
        (SIDE, replace(SIDE, left=()), BETTER),
        (SIDE, replace(SIDE, result=WRONG), WORSE),
        (SIDE, replace(SIDE, result=STOPS), WORSE),
        (replace(SIDE, result=FAILS), replace(SIDE, result=FAILS), WORSE),
        (replace(SIDE, result=FAILS), Side(FAILS, detail="DC118 in training mode"), NEITHER),
        (SIDE, Side(FAILS, detail="DC118 in training mode"), WORSE),
        (replace(SIDE, result=WRONG, difference=0.1), replace(SIDE, result=WRONG, difference=0.1), NEITHER),
        (replace(SIDE, result=WRONG, difference=0.1), replace(SIDE, result=WRONG, difference=0.2), WORSE),
        (replace(SIDE, result=WRONG, left=()), replace(SIDE, result=WRONG), WORSE),
        (replace(SIDE, result=WRONG), replace(SIDE, result=WRONG, delegates=2), WORSE),
        (replace(SIDE, result=WRONG), replace(SIDE, result=WRONG, left=()), NEITHER),
        (SIDE, replace(SIDE, delegates=2), WORSE),
        (SIDE, replace(SIDE, left=("aten::where.self_out",) * 2), WORSE),
        (replace(SIDE, left=()), Side(RIGHT, 0, ("aten::permute_copy.out",)), OTHER),
        (Side(NONE), Side(NONE), NO_CASE),
    ],
)
def test_classes(peer: Side, ours: Side, kind: str) -> None:
    assert classify(peer, ours).kind == kind


@pytest.mark.parametrize(
    ("result", "expected", "found"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]), 0.0),
        (torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), 0.25),
        (torch.tensor([torch.nan]), torch.tensor([torch.nan]), 0.0),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float16), float("inf")),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), float("inf")),
        (3, 3, 0.0),
    ],
)
def test_differences(result: Any, expected: Any, found: float) -> None:
    assert difference(result, expected) == found
