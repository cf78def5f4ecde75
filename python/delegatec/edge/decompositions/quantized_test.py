# SPDX-License-Identifier: Apache-2.0
"""Quantised tensors have the numbers that PT2E's own operators give, and nothing is left of these."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import assert_computes, called, edge

quantized = torch.ops.quantized_decomposed
X = torch.tensor([[-9.0, -0.51, 0.25, 0.75], [0.0, 0.03, 1.25, 9.0]])
INT8 = (-128, 127, torch.int8)
LEVELS = torch.arange(-4, 4, dtype=torch.int8).view(2, 4)
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0, 1, -2, 3])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: quantized.quantize_per_tensor(x, 0.05, 3, *INT8), X),
        (lambda x: quantized.quantize_per_tensor(x, 0.5, 0, *INT8), X.half()),
        (lambda x: quantized.quantize_per_tensor(x, torch.tensor(0.05), torch.tensor(3), *INT8), X),
        (lambda x: quantized.dequantize_per_tensor(x, 0.05, 3, *INT8), LEVELS),
        (lambda x: quantized.dequantize_per_tensor(x, 0.05, 3, *INT8, out_dtype=torch.float16), LEVELS),
        (lambda x: quantized.quantize_per_channel(x, SCALES, ZEROS, 1, *INT8), X),
        (lambda x: quantized.dequantize_per_channel(x, SCALES, ZEROS, 1, *INT8), LEVELS),
        (lambda x: quantized.dequantize_per_channel(x, SCALES[:2], None, 0, *INT8), LEVELS),
    ],
)
def test_same_numbers(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    program = edge(function, x)
    assert called(program) and all(operator.namespace == "aten" for operator in called(program))
    expected = function(x)
    assert len(expected.unique()) > 3
    assert_computes(program, expected, x)
