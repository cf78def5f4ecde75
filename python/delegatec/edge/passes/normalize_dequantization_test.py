# SPDX-License-Identifier: Apache-2.0
"""Weights are dequantized by one operator, as the page for authors of backends says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.arguments import bind
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.testing import assert_computes, called, edge

quantized = torch.ops.quantized_decomposed
WEIGHT = torch.arange(-32, 32, dtype=torch.int8).view(4, 16)
# All sums are exact in float32, in any order.
SCALES = 2.0 ** torch.tensor([[-1, 0], [1, -2], [0, 1], [-3, 2]])
ZEROS, NO_ZEROS = torch.tensor([0, 1, -2, 3]), torch.zeros(4, dtype=torch.int64)
INT8 = (-128, 127, torch.int8)
X = torch.arange(-24.0, 24.0).view(3, 16)


@pytest.mark.parametrize(
    ("dequantize", "block", "has_zero_points"),
    [
        pytest.param(
            lambda: quantized.dequantize_per_channel(WEIGHT, SCALES[:, 0], ZEROS, 0, *INT8),
            *([1, 16], True),
            id="channels",
        ),
        pytest.param(
            lambda: quantized.dequantize_per_channel(WEIGHT, SCALES[:, 0], NO_ZEROS, 0, *INT8),
            *([1, 16], False),
            id="without zero points",
        ),
        pytest.param(
            lambda: quantized.dequantize_per_channel(WEIGHT[:1], SCALES[0, :1], None, 0, *INT8),
            *([1, 16], False),
            id="one channel",
        ),
        pytest.param(
            lambda: quantized.dequantize_per_channel_group(WEIGHT, SCALES, None, *INT8, 8, torch.float32),
            *([1, 8], False),
            id="groups",
        ),
    ],
)
def test_weights(dequantize: Callable[[], Tensor], block: list[int], has_zero_points: bool) -> None:
    def model(x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, dequantize())

    program = edge(model, X, preserve=[DEQUANTIZE_BLOCKS])
    assert not any(operator.namespace == "quantized_decomposed" for operator in called(program))
    (node,) = program.graph.find_nodes(op="call_function", target=DEQUANTIZE_BLOCKS)
    bound = bind(node)
    assert bound["block_size"] == block and (bound["zero_point"] is not None) == has_zero_points
    assert_computes(program, model(X), X, atol=0, rtol=0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("is_input", [False, True], ids=["computed", "input"])
def test_channels_of_dynamic_sizes(axis: int, is_input: bool) -> None:
    scales, zeros = SCALES.flatten()[:4].contiguous(), ZEROS

    def model(x: Tensor) -> Tensor:
        values = x if is_input else quantized.quantize_per_channel(x, scales, zeros, axis, *INT8)
        return quantized.dequantize_per_channel(values, scales, zeros, axis, *INT8) * 2

    examples = [
        (torch.arange(-2 * size, 2 * size).view(4, size) / (1 if is_input else 4)).to(
            torch.int8 if is_input else torch.float32
        )
        for size in (3, 5)
    ]
    examples = [each if axis == 0 else each.t().contiguous() for each in examples]
    dynamic_shapes = ({1 - axis: torch.export.Dim.DYNAMIC},)
    program = edge(model, examples[0], dynamic_shapes=dynamic_shapes, preserve=[DEQUANTIZE_BLOCKS])
    assert DEQUANTIZE_BLOCKS not in called(program)
    for example in examples:
        assert_computes(program, model(example), example, atol=0, rtol=0)
