# SPDX-License-Identifier: Apache-2.0
"""Damaged blobs: a result, or a diagnostic; never another exception, and never more than a little memory."""

from __future__ import annotations

from typing import Final

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.reference.executor import VulkanReferenceExecutor
from delegatec.backends.vulkan.reference.tensors import Limits
from delegatec.backends.vulkan.reference.testing import Blob
from delegatec.backends.vulkan.reference.unspecified import Unspecified
from delegatec.backends.vulkan.testing.reference.table import CASES
from delegatec.diagnostics import DelegatecError

_BLOBS: Final = [(case.blob(case.placements[-1]).data(), case.inputs) for case in CASES if case.placements]
# A damaged size or count must not become work.
_LIMITS: Final = Limits(plane=512, volume=64, buffer=65536)
_USUAL: Final = Unspecified(barriers="ignored", texels="zero")


def _outcome(data: bytes, inputs: list[torch.Tensor]) -> str:
    """Returns the code of the error, or nothing."""
    try:
        VulkanReferenceExecutor(read_blob(memoryview(data)), _USUAL, _LIMITS)(inputs)
    except DelegatecError as error:
        (code,) = {diagnostic.code for diagnostic in error.diagnostics}
        return code
    return ""


def test_complete_files_run() -> None:
    assert {_outcome(data, inputs) for data, inputs in _BLOBS} == {""}


@given(st.data())
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
def test_changed_bytes(data: st.DataObject) -> None:
    original, inputs = _BLOBS[data.draw(st.integers(0, len(_BLOBS) - 1))]
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(32, len(damaged) - 1))
        changes = st.sampled_from([0, 1, 2, 3, 7, 127, 128, 254, 255]) | st.integers(0, 255)
        damaged[position] = data.draw(changes)
    assert _outcome(bytes(damaged), inputs) in ("", "DC407", "DC408")


@given(st.integers(0, len(_BLOBS) - 1), st.integers(0, len(_BLOBS) - 1))
@settings(max_examples=100, deadline=None)
def test_inputs_of_another_blob(one: int, other: int) -> None:
    assert _outcome(_BLOBS[one][0], _BLOBS[other][1]) in ("", "DC408")


def test_every_argument_may_be_anything() -> None:
    """All arguments of all operators, one after the other, as values that are wrong for most of them."""
    seen = set()
    for case in CASES:
        if not case.placements:
            continue
        for position in range(len(case.blob(case.placements[-1]).calls[-1].args)):
            for wrong in (None, -1, 2**31, 1.5, True, "x", [], [2**31 - 1], [0, 0], [-1.0]):
                blob = case.blob(case.placements[-1])
                blob.calls[-1].args[position] = blob.value(wrong)
                seen.add(_outcome(blob.data(), case.inputs))
    assert seen == {"", "DC408"}


def test_arguments_may_be_missing() -> None:
    for case in CASES:
        for count in range(len(case.arguments) + 1):
            blob: Blob = case.blob((case.placements or [(0, 0)])[-1])
            blob.calls[-1].args = blob.calls[-1].args[:count]
            assert _outcome(blob.data(), case.inputs) in (("", "DC408") if count else ("DC407",))


def test_sizes_of_an_empty_constant() -> None:
    blob = Blob()
    constant = blob.constant(torch.zeros(0))
    x, result = blob.input(torch.ones(2)), blob.output([2])
    blob.call("aten.add.Tensor", x, constant, 1, result)
    blob.values[constant].content.dims = [2**31, 0, 2**31, 2**31]
    assert "a constant has the sizes" in blob.rejection(torch.ones(2))
