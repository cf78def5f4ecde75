# SPDX-License-Identifier: Apache-2.0
"""Block-scaled layers: in the reference model, bit for bit, and in the validator."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.arm.specification import TosaSpecification
from delegatec.edge.block_scaled import CONV2D, FORMATS, LINEAR, fake_quantized, to_blocks
from tests.arm.models import exported, lower
from tests.arm.tosa_tools import InvalidGraphError, check, run

_FLOAT8 = {"fp8e4m3": "+fp8e4m3", "fp8e5m2": "+fp8e5m2"}


class Linear(torch.nn.Module):
    def __init__(self, weight: torch.Tensor, format: str) -> None:
        super().__init__()
        self.format = format
        elements, scales = to_blocks(weight, format)
        self.elements, self.scales = (torch.nn.Buffer(each) for each in (elements, scales))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = LINEAR(x, self.elements, self.scales, None, self.format)
        return product


class Conv2d(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = x.permute(0, 2, 3, 1)
        sums: torch.Tensor = CONV2D(
            images, self.elements, self.scales, None, [2, 1], [1, 1], [1, 2], self.format
        )
        return sums.permute(0, 3, 1, 2)


def _graph(model: torch.nn.Module, x: torch.Tensor, specification: str) -> bytes:
    (graph,) = lower(exported((model.eval(), (x,))), "tosa", specification=specification).blobs
    return graph


@pytest.mark.parametrize("format", FORMATS)
def test_values_are_rounded_as_in_the_reference_model(format: str) -> None:
    torch.manual_seed(0)
    limit, largest = FORMATS[format].limit, FORMATS[format].largest
    x = torch.randn(200, 32) * torch.exp2(torch.randint(-30, 30, (200, 1)))
    x[0, 0], x[1], x[2] = limit, torch.linspace(-largest, largest, 32), torch.arange(32) / 8
    x[3], x[4] = 0.0, torch.linspace(-limit, limit, 32)
    for row, factor in enumerate((0.96, 0.99, 1.01, 1.04), 5):
        x[row] *= factor * largest / x[row].abs().max()
    identity = Linear(torch.eye(32).unsqueeze(0), format)
    graph = _graph(identity, x, f"TOSA-1.1+FP+mxfp{_FLOAT8.get(format, '')}")
    (found,) = run(graph, [x])
    assert torch.equal(found, fake_quantized(x, format))


@pytest.mark.parametrize("format", FORMATS)
def test_layers(format: str) -> None:
    torch.manual_seed(0)
    for layer, weight, x, extension in (
        (Linear, torch.randn(1, 5, 96), torch.randn(2, 3, 96), ""),
        (Conv2d, torch.randn(5, 3, 2, 64), torch.randn(2, 64, 9, 8), "+mxfp_conv"),
    ):
        model, specification = layer(weight, format), f"TOSA-1.1+FP+mxfp{extension}{_FLOAT8.get(format, '')}"
        graph = _graph(model, x, specification)
        check(graph, TosaSpecification.parse(specification))
        (found,) = run(graph, [x])
        torch.testing.assert_close(found, model(x), rtol=1e-5, atol=1e-5)
        less = specification.replace("+mxfp_conv", "") if extension else specification.replace("+mxfp", "")
        with pytest.raises(InvalidGraphError, match="mxfp"):
            check(graph, TosaSpecification.parse(less))
        if format in _FLOAT8:
            with pytest.raises(InvalidGraphError, match=format):
                check(graph, TosaSpecification.parse(specification.replace(_FLOAT8[format], "")))
