# SPDX-License-Identifier: Apache-2.0
"""Damaged blobs and wrong inputs end in a result or a diagnostic: never another exception, or much memory."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.reference.executor import XnnpackReferenceExecutor
from delegatec.backends.xnnpack.testing.reference.cases import Case
from delegatec.backends.xnnpack.testing.reference.table import CASES
from delegatec.diagnostics import DelegatecError

_MOST_ELEMENTS: Final = 65536
# One of each operation and combination of types is enough.
_CASES: Final = {(case.operation, case.name.split("-")[-1]): case for case in CASES}
_BLOBS: Final = [(case, case.blob().data(), case.blob().named_data()) for case in _CASES.values()]


def outcome(data: bytes, named: Any, inputs: list[torch.Tensor]) -> str:
    """Returns the code of the error, or nothing."""
    try:
        executor = XnnpackReferenceExecutor(read_blob(memoryview(data)), _MOST_ELEMENTS)
        executor.load_named_data(named)
        executor(inputs)
    except DelegatecError as error:
        (code,) = {diagnostic.code for diagnostic in error.diagnostics}
        return code
    return ""


def message_of(case: Case, inputs: list[torch.Tensor]) -> str:
    """Returns the message with which inputs are rejected."""
    with pytest.raises(DelegatecError, match="the XNNPACK runtime cannot run this blob") as error:
        case.executor()(inputs)
    return str(error.value)


def named(name: str) -> Case:
    """Returns a case."""
    return next(case for case in CASES if case.name == name)


def test_complete_files_run() -> None:
    assert {outcome(data, data_by_key, case.inputs) for case, data, data_by_key in _BLOBS} == {""}


@given(st.data())
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_changed_bytes(data: st.DataObject) -> None:
    case, original, by_key = _BLOBS[data.draw(st.integers(0, len(_BLOBS) - 1))]
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(32, len(damaged) - 1))
        changes = st.sampled_from([0, 1, 2, 3, 7, 127, 128, 254, 255]) | st.integers(0, 255)
        damaged[position] = data.draw(changes)
    assert outcome(bytes(damaged), by_key, case.inputs) in ("", "DC407", "DC408")


@given(st.integers(0, len(_BLOBS) - 1), st.integers(0, len(_BLOBS) - 1))
@settings(max_examples=200, deadline=None)
def test_inputs_of_another_blob(one: int, other: int) -> None:
    assert outcome(*_BLOBS[one][1:], _BLOBS[other][0].inputs) in ("", "DC408")


@given(st.integers(0, len(_BLOBS) - 1), st.lists(st.integers(0, 7), max_size=7))
@settings(max_examples=200, deadline=None)
def test_inputs_of_other_sizes(one: int, shape: list[int]) -> None:
    case, data, by_key = _BLOBS[one]
    inputs = [torch.zeros(shape, dtype=value.dtype) for value in case.inputs]
    assert outcome(data, by_key, inputs) in ("", "DC408")


@given(st.integers(0, len(_BLOBS) - 1), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_named_data_that_is_missing_or_too_short(one: int, size: int) -> None:
    case, data, by_key = _BLOBS[one]
    assert outcome(data, {}, case.inputs) == ("DC408" if by_key else "")
    short = {key: value[:size] for key, value in by_key.items()}
    assert outcome(data, short, case.inputs) in ("", "DC408")


def test_messages() -> None:
    layer = named("FullyConnected-float32-float32-2-bias")
    assert "value 10 of shape [5, 36] and a filter of [13, 37] do not fit" in message_of(
        layer, [torch.zeros(5, 36)]
    )
    assert "0 inputs instead of 1" in message_of(layer, [])
    assert "input 10 is float16, and is declared as float32" in message_of(layer, [torch.zeros(5, 37).half()])
    addition = named("Add-row-f32")
    assert "operands of the shapes [3, 5] and [4] cannot be broadcast" in message_of(
        addition, [torch.zeros(3, 5), torch.zeros(4)]
    )
    image = named("Convolution-plain-f32-f32-f32")
    assert "is smaller than a kernel" in message_of(image, [torch.zeros(1, 2, 2, 5)])
    assert "the input of a convolution has 3 dimensions instead of 4" in message_of(
        image, [torch.zeros(2, 2, 5)]
    )
    assert "cannot have the shape [6, 4]" in message_of(named("Reshape[6, 4]-f32"), [torch.zeros(5)])
    assert "along axis 0" in message_of(named("Concatenate2-0-f32"), [torch.zeros(2, 3), torch.zeros(2, 4)])
    assert 'no named data "' in _without_data(layer)


def _without_data(case: Case) -> str:
    executor = case.executor()
    executor.load_named_data({})
    with pytest.raises(DelegatecError) as error:
        executor(case.inputs)
    return str(error.value)
