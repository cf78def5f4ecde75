# SPDX-License-Identifier: Apache-2.0
"""Damaged blobs end in a result or a diagnostic: never another exception, and never much memory."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import DEFAULT, STRICT
from delegatec.backends.mps.testing.reference import elementwise, layers, movement, pooling
from delegatec.backends.mps.testing.reference.synthetic import Case, blob_of
from delegatec.diagnostics import DelegatecError

_CASES: Final[list[tuple[str, Case]]] = [
    (name, case)
    for module in (elementwise, layers, movement, pooling)
    for name, cases in module.CASES.items()
    for case in cases
]
_BLOBS: Final = [(blob_of(name, case)[0], case.inputs) for name, case in _CASES]
# Elements of a value: a damaged size or count must not become work.
_LIMIT: Final = 4096


def _outcome(data: bytes, inputs: tuple[torch.Tensor, ...], strict: bool) -> str:
    """Returns the code of the error, or None."""
    try:
        blob = read_blob(memoryview(data))
        MpsReferenceExecutor(blob, STRICT if strict else DEFAULT, max_elements=_LIMIT)(inputs)
    except DelegatecError as error:
        (code,) = {diagnostic.code for diagnostic in error.diagnostics}
        return code
    return ""


def test_complete_files_run() -> None:
    assert {_outcome(data, inputs, False) for data, inputs in _BLOBS} == {""}


@pytest.mark.parametrize("strict", [False, True])
@given(st.data())
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_changed_bytes(strict: bool, data: st.DataObject) -> None:
    original, inputs = _BLOBS[data.draw(st.integers(0, len(_BLOBS) - 1))]
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(24, len(damaged) - 1))
        damaged[position] = data.draw(
            st.sampled_from([0, 1, 2, 3, 7, 127, 128, 254, 255]) | st.integers(0, 255)
        )
    assert _outcome(bytes(damaged), inputs, strict) in ("", "DC407", "DC408", "DC440")


@given(st.integers(0, len(_BLOBS) - 1), st.integers(0, len(_BLOBS) - 1))
@settings(max_examples=100, deadline=None)
def test_inputs_of_another_blob(one: int, other: int) -> None:
    assert _outcome(_BLOBS[one][0], _BLOBS[other][1], False) in ("", "DC408", "DC440")


def test_every_integer_of_every_table_may_be_any() -> None:
    """Sets each field of all operations in turn to values that are invalid in most of them."""
    seen = set()
    for (name, case), (_, inputs) in zip(_CASES, _BLOBS, strict=True):
        for field, content in vars(case.table).items():
            for wrong in (-1, 3, 2**31 - 1):
                table = type(case.table)(**vars(case.table))
                if isinstance(content, list):
                    setattr(table, field, [wrong, *content[1:]])
                elif type(content) in (int, float) and not field.lower().endswith("dtype"):  # of 16 bits
                    setattr(table, field, type(content)(wrong))
                else:
                    continue
                changed = Case(
                    table, inputs, case.expected, case.constants, case.int4, case.bounds, dtypes=case.dtypes
                )
                seen.add(_outcome(blob_of(name, changed)[0], inputs, False))
    assert {"", "DC407", "DC408"} <= seen <= {"", "DC407", "DC408", "DC440"}
