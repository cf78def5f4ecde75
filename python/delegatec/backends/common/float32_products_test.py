# SPDX-License-Identifier: Apache-2.0
"""Integer products in a float16 program are exact."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from delegatec.backends.common.precision import to_float16
from delegatec.backends.common.testing import Call
from delegatec.edge import to_edge
from delegatec.edge.interpret import interpret


def _scaled(quantized_values: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    product = quantized_values.to(torch.float32)[:, 1:] @ weight.to(torch.float32)[1:]
    total = product.to(torch.int32) + product.to(torch.int32)
    return total.to(torch.float32).view(2, 2, 6) * scale * 0.001


def test_products_of_quantized_values() -> None:
    quantized_values = torch.full((4, 512), 100, dtype=torch.int8)
    weight = torch.full((512, 6), 90, dtype=torch.int8)
    scale = torch.full((6,), 0.003)
    module: nn.Module = Call(_scaled)
    program = to_edge(torch.export.export(module, (quantized_values, weight, scale)))
    to_float16(program)
    (result,) = interpret(program, (quantized_values, weight, scale))
    torch.testing.assert_close(result, module(quantized_values, weight, scale), rtol=2e-3, atol=0)


def test_products_of_rounded_activations() -> None:
    """Which are not converted to int8."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        product = x.round().clamp(-128, 127) @ weight.to(torch.float32)
        return product.to(torch.int32).to(torch.float32) * 0.001

    x, weight = torch.full((4, 512), 99.6), torch.full((512, 6), 90, dtype=torch.int8)
    program = to_edge(torch.export.export(Call(function), (x, weight)))
    to_float16(program)
    (result,) = interpret(program, (x, weight))
    torch.testing.assert_close(result, function(x, weight), rtol=2e-3, atol=0)
