# SPDX-License-Identifier: Apache-2.0
"""Every operator in every storage and layout: values where the runtime computes them, else a rejection."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
import torch

from delegatec.backends.vulkan.reference.executor import SEMANTICS
from delegatec.backends.vulkan.reference.testing import PLACEMENTS, Placement
from delegatec.backends.vulkan.reference.unspecified import Unspecified
from delegatec.backends.vulkan.testing.reference.cases import Case, Constant
from delegatec.backends.vulkan.testing.reference.table import CASES

_IDS: Final = [f"{index}-{case.name}" for index, case in enumerate(CASES)]
_NAMES: Final = ("buffer", "width", "height", "channels")
_USUAL: Final = Unspecified(barriers="ignored", texels="zero")
# Operators with separate tests.
_ELSEWHERE: Final = frozenset(
    ("et_vk.prepack.default", "sym_size.int", "add", "sub", "mul", "floordiv")
    + ("et_vk.select_as_symint.default", "etvk.choose_qparams_per_row.default")
    + ("update_cache.default", "llama.custom_sdpa.default", "sdpa_with_kv_cache.default")
    + tuple(f"quantized_decomposed.{name}_per_tensor.default" for name in ("quantize", "dequantize"))
)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=_NAMES)
@pytest.mark.parametrize("case", CASES, ids=_IDS)
def test_values_or_a_rejection(case: Case, placement: Placement) -> None:
    blob = case.blob(placement)
    if placement not in case.placements:
        assert blob.rejection(*case.inputs, unspecified=_USUAL)
        return
    found = blob.run(*case.inputs, unspecified=_USUAL)
    for result, wanted in zip(found, case.wanted, strict=True):
        assert result.dtype == wanted.dtype
        assert torch.allclose(result.double(), wanted.double(), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=_NAMES)
@pytest.mark.parametrize("case", CASES, ids=_IDS)
def test_float16(case: Case, placement: Placement) -> None:
    """The same in float16, if all floats are inputs and results of the same operator."""
    tensors = [*case.inputs, *case.wanted]
    floats = [tensor for tensor in tensors if tensor.dtype == torch.float32]
    if (
        len(floats) < len(tensors)
        or case.at
        or case.results
        or placement not in case.placements
        or case.exact
    ):
        return
    arguments = [_half(argument) for argument in case.arguments]
    results = [wanted.half() for wanted in case.wanted]
    halved = replace(case, arguments=arguments, expected=results if case.lists else results[0])
    found = halved.blob(placement).run(*halved.inputs, unspecified=_USUAL)
    for result, wanted in zip(found, case.wanted, strict=True):
        assert result.dtype == torch.float16
        assert torch.allclose(result.float(), wanted, atol=2e-2, rtol=2e-2)


def _half(argument: object) -> object:
    if isinstance(argument, torch.Tensor):
        return argument.half()
    if isinstance(argument, Constant):
        return Constant(argument.value.half() if argument.value.is_floating_point() else argument.value)
    if isinstance(argument, list):
        return [_half(item) for item in argument]
    return argument


def test_every_operator_has_a_case() -> None:
    assert set(SEMANTICS) == {case.name for case in CASES} | _ELSEWHERE
