# SPDX-License-Identifier: Apache-2.0
"""Quantized values of dynamic sizes become floats with the same values; others stay int8."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.backends.vulkan.fusion.quantize_in_float import quantize_in_float
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.testing.narrowed import narrowed_sizes
from delegatec.edge.verifier import verify

_SIZES: Final = ({0: Dim("batch", min=1, max=9), 1: Dim("length", min=1, max=9)},)
_QUANTIZED: Final = frozenset(
    {
        QUANTIZE,
        DEQUANTIZE,
        *(getattr(AFFINE, each).default for each in ("quantize_affine", "dequantize_affine")),
    }
)


def _per_tensor(x: Tensor) -> Tensor:
    parameters = (0.03, -7, -128, 127, torch.int8)
    result: Tensor = DEQUANTIZE(QUANTIZE(x, *parameters), *parameters) * 2
    return result


def _rows(x: Tensor, mapping: str = "ASYMMETRIC") -> Tensor:
    block, limits = [1, 1, x.shape[-1]], (-128, 127)
    scale, zeros = AFFINE.choose_qparams_affine(
        x, mapping, block, torch.int8, *limits, None, None, torch.int8
    )
    values = AFFINE.quantize_affine(x, block, scale, zeros, torch.int8, *limits)
    result: Tensor = AFFINE.dequantize_affine(values, block, scale, zeros, torch.int8, *limits)
    return result


def _symmetric_rows(x: Tensor) -> Tensor:
    return _rows(x, "SYMMETRIC")


def _preserved(function: Any, sizes: Any) -> Any:
    names = ("choose_qparams_affine", "quantize_affine", "dequantize_affine")
    preserve = [QUANTIZE, DEQUANTIZE, *(getattr(AFFINE, each).default for each in names)]
    return edge(function, torch.randn(3, 5, 4), dynamic_shapes=sizes, preserve=preserve)


@pytest.mark.parametrize("function", [_per_tensor, _rows, _symmetric_rows])
def test_dynamic_sizes(function: Any) -> None:
    program = _preserved(function, _SIZES)
    assert not _QUANTIZED.isdisjoint(called(program))
    assert quantize_in_float(program)
    verify(program)
    assert _QUANTIZED.isdisjoint(called(program))
    assert not narrowed_sizes(program)
    for batch, length in ((3, 5), (1, 9), (9, 1)):
        x = torch.randn(batch, length, 4, generator=torch.Generator().manual_seed(0)) * 3
        assert_computes(program, function(x), x)


def test_static_sizes_stay() -> None:
    assert not quantize_in_float(_preserved(_per_tensor, None))


def test_quantized_values_that_others_read_stay() -> None:
    def function(x: Tensor) -> Any:
        values = QUANTIZE(x, 0.03, -7, -128, 127, torch.int8)
        return values, DEQUANTIZE(values, 0.03, -7, -128, 127, torch.int8)

    program = _preserved(function, _SIZES)
    assert quantize_in_float(program)
    assert QUANTIZE in called(program) and DEQUANTIZE not in called(program)
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    assert_computes(program, function(x), x)
