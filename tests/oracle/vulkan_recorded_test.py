# SPDX-License-Identifier: Apache-2.0
"""The executor has the results of the ExecuTorch runtime for the same blobs."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.vulkan.reference.testing import Placement
from delegatec.backends.vulkan.reference.unspecified import Unspecified
from delegatec.backends.vulkan.testing.reference.cases import Case
from tests.oracle.vulkan_recorded import all_blobs, key_of, recorded_outputs

_RECORDED: Final = recorded_outputs()
_BLOBS: Final = {key_of(case, placement): (case, placement) for case, placement in all_blobs()}
# Sums in another order, and elementary functions of the driver's compiler.
_TOLERANCE: Final = 3e-6
# Copies between textures of float32 and float16 truncate in this driver; Vulkan leaves rounding open.
_FLOAT16_STEP: Final = 2.0**-10
_LEAST_SHARE: Final = 0.95


@pytest.mark.parametrize("key", _RECORDED)
def test_outputs_of_the_runtime(key: str) -> None:
    if key not in _BLOBS:
        pytest.skip("the case has changed since the outputs were recorded")
    case, placement = _BLOBS[key]
    outputs = _run(case, placement)
    for found, recorded in zip(outputs, _RECORDED[key], strict=True):
        assert found.dtype == recorded.dtype and found.shape == recorded.shape
        tolerance = _tolerance(case, recorded) * max(1.0, recorded.double().abs().max().item())
        assert torch.allclose(found.double(), recorded.double(), atol=tolerance, rtol=0, equal_nan=True)


def _run(case: Case, placement: Placement) -> list[torch.Tensor]:
    return case.blob(placement).run(*case.inputs, unspecified=Unspecified(barriers="ignored", texels="zero"))


def _tolerance(case: Case, recorded: torch.Tensor) -> float:
    narrows = case.name == "aten._to_copy.default" and recorded.dtype == torch.float16
    return _FLOAT16_STEP if narrows else _TOLERANCE


def test_most_blobs_are_recorded() -> None:
    assert len(_RECORDED.keys() & _BLOBS.keys()) >= _LEAST_SHARE * len(_BLOBS)
