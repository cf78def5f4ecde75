# SPDX-License-Identifier: Apache-2.0
"""Integer products, as torchao computes them, become linear layers, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.backends.xnnpack.quantized.products import recover_linear
from delegatec.backends.xnnpack.quantized.testing import Layer
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
X = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))


def quantized_values_of(x: Tensor, mapping: str = "SYMMETRIC") -> tuple[Tensor, Tensor]:
    block = [1] * (x.dim() - 1) + [x.shape[-1]]
    scale, zero = AFFINE.choose_qparams_affine(
        x, mapping, block, torch.int8, -128, 127, scale_dtype=torch.float32, keepdim=True
    )
    return AFFINE.quantize_affine(x, block, scale, zero, torch.int8, -128, 127), scale


def dynamic(layer: Layer, x: Tensor, mapping: str = "SYMMETRIC") -> Tensor:
    quantized_values, scale = quantized_values_of(x, mapping)
    sums = torch._int_mm(quantized_values.view(6, 16), layer.values.t())
    return (sums.float() * scale.view(6, 1) * layer.scales).view(2, 3, 20) + layer.bias


def weights_alone(layer: Layer, x: Tensor) -> Tensor:
    product = torch.mm(x.view(6, 16), layer.values.t().float()) * layer.scales
    return product.view(2, 3, 20) + layer.bias


def dynamic_half(layer: Layer, x: Tensor) -> Tensor:
    quantized_values, scale = quantized_values_of(x.half())
    sums = torch._int_mm(quantized_values.view(6, 16), layer.values.t())
    product = (sums.float() * scale.view(6, 1)).half()
    return (product * layer.scales).view(2, 3, 20) + layer.bias


def weights_alone_half(layer: Layer, x: Tensor) -> Tensor:
    product = torch.mm(x.half().view(6, 16), layer.values.t().half()) * layer.scales.half()
    return product.view(2, 3, 20) + layer.bias.half()


@pytest.mark.parametrize("function", [dynamic, weights_alone, dynamic_half, weights_alone_half])
def test_products_become_linear_layers(function: Callable[[Layer, Tensor], Tensor]) -> None:
    layer = Layer(function, (20, 16)).eval()
    program = edge(layer, X, preserve=XNNPACK.preserved_operators())
    assert recover_linear(program)
    verify(program)
    targets = called(program)
    assert targets.count(aten.linear.default) == 1
    assert not {aten.mm.default, aten._int_mm.default, aten.add.Tensor, aten.view.default} & {*targets}
    # rows are quantized with a zero point, which shifts values by up to one quantization step
    tolerance = 0.3 if function in (dynamic, dynamic_half) else 1e-5 if function is weights_alone else 0.02
    assert_computes(program, layer(X), X, atol=tolerance, rtol=0)


def test_values_with_other_readers_stay() -> None:
    def function(layer: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
        quantized_values, scale = quantized_values_of(x)
        sums = torch._int_mm(quantized_values.view(6, 16), layer.values.t())
        return sums.float() * scale.view(6, 1) * layer.scales, scale

    program = edge(Layer(function, (20, 16)), X, preserve=XNNPACK.preserved_operators())
    assert not recover_linear(program)


def test_other_products_stay() -> None:
    layer = Layer(lambda own, x: dynamic(own, x, "ASYMMETRIC"), (20, 16))
    assert not recover_linear(edge(layer, X, preserve=XNNPACK.preserved_operators()))
    layer = Layer(lambda own, x: torch.mm(x[0], own.values.t().float()) * own.scales[:1], (20, 16))
    assert not recover_linear(edge(layer, X, preserve=XNNPACK.preserved_operators()))
