# SPDX-License-Identifier: Apache-2.0
"""Every node type of the format, from handwritten blobs, in float32 and float16."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest
import torch
from delegatec_schemas.mps_graph import BinaryT

from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.reference.executor import SEMANTICS
from delegatec.backends.mps.reference.unspecified import Unspecified
from delegatec.backends.mps.testing.reference import elementwise, layers, movement, pooling
from delegatec.backends.mps.testing.reference.synthetic import Case, blob_of, executor, halved, make_blob
from delegatec.diagnostics import DelegatecError

UNKNOWN: Final = frozenset({"Min", "Max", "Atan2"})
CASES: Final[dict[str, list[Case]]] = {
    **elementwise.CASES,
    **layers.CASES,
    **movement.CASES,
    **pooling.CASES,
}
FLAT: Final = [
    pytest.param(name, case, id=f"{name}-{index}")
    for name, cases in CASES.items()
    for index, case in enumerate(cases)
]


def test_every_node_type_has_cases_and_semantics_or_is_unknown_to_the_runtime() -> None:
    assert len(OPERATION_NAMES) == 90
    assert set(CASES) | UNKNOWN == set(OPERATION_NAMES.values())
    assert set(SEMANTICS) == set(CASES)
    assert not UNKNOWN & set(CASES)


@pytest.mark.parametrize(("name", "case"), FLAT)
def test_float32(name: str, case: Case) -> None:
    blob, wanted = blob_of(name, case)
    run = executor(blob)
    for result, expected in zip(run(case.inputs), wanted, strict=True):
        assert expected.is_floating_point() or result.equal(expected)
        torch.testing.assert_close(result, expected, rtol=2e-6, atol=1e-6, equal_nan=True)
    assert run.mismatches() == []


@pytest.mark.parametrize(
    ("name", "case"), [param for param in FLAT if isinstance(param.values[1], Case) and param.values[1].half]
)
def test_float16(name: str, case: Case) -> None:
    blob, wanted, inputs = halved(name, case)
    run = executor(blob)
    for result, expected in zip(run(inputs), wanted, strict=True):
        torch.testing.assert_close(result, expected, rtol=4e-3, atol=2e-3, equal_nan=True)
    assert run.mismatches() == []


def test_results_are_not_all_near_zero() -> None:
    for name, cases in CASES.items():
        assert any(
            result.double().abs().max() > 0.1 for case in cases for result in blob_of(name, case)[1]
        ), name


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_unknown_operations_are_rejected(name: str) -> None:
    x = torch.rand(3)
    with pytest.raises(DelegatecError, match=f"it has no operation {name}") as error:
        executor(make_blob([(name, BinaryT(0, 1, 10))], (x, x), {10: x}))((x, x))
    assert error.value.diagnostics[0].code == "DC408"


# Cases with unspecified results, by the behavior that they show.
SHOWN: Final = {
    "integer_casts": {"Cast"},
    "ties": {"MaxPool2DWithIndices"},
    "bool_cast": {"Cast"},
}


@cache
def _by_default(name: str, index: int) -> tuple[bytes, list[torch.Tensor]]:
    blob, _ = blob_of(name, CASES[name][index])
    return blob, executor(blob)(CASES[name][index].inputs)


@pytest.mark.parametrize("variant", Unspecified.variants())
def test_other_cases_do_not_depend_on_unspecified_behavior(variant: str) -> None:
    changed, behavior = Unspecified.variants()[variant], variant.split("=")[0]
    for name, cases in CASES.items():
        for index, case in enumerate(cases if name not in SHOWN.get(behavior, ()) else ()):
            blob, usual = _by_default(name, index)
            for one, other in zip(usual, executor(blob, changed)(case.inputs), strict=True):
                assert torch.equal(one.nan_to_num(123.0), other.nan_to_num(123.0)), name
