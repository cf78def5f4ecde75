# SPDX-License-Identifier: Apache-2.0
"""Products with transposed quantized weights become linear layers, others stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.backends.xnnpack.quantized.testing import Layer
from delegatec.backends.xnnpack.quantized.transposed import linear_of_transposed
from delegatec.backends.xnnpack.quantized.weights import CALLS
from delegatec.edge.interpret import interpret
from delegatec.edge.testing import edge

aten = torch.ops.aten

Function = Callable[[Layer, Tensor], Tensor]
LAYERS: dict[str, Function] = {
    "a product": lambda own, x: x @ own.weight().t(),
    "a bias": lambda own, x: torch.addmm(own.bias, x, own.weight().mT),
}
OTHERS: dict[str, Function] = {
    "numbers": lambda own, x: x @ (own.weight() + 1).t(),
    "not transposed": lambda own, x: x[:, :48] @ own.weight(),
    "a matrix added": lambda own, x: torch.addmm(x[:, :48] * 2, x, own.weight().t()),
    "a factor": lambda own, x: torch.addmm(own.bias, x, own.weight().t(), alpha=2),
}


@pytest.mark.parametrize("name", [*LAYERS, *OTHERS])
def test_products(name: str) -> None:
    layer = Layer({**LAYERS, **OTHERS}[name], (48, 64), 8, 32)
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    program = edge(layer, x, preserve=CALLS)
    assert linear_of_transposed(program) == (name in LAYERS)
    targets = {node.target for node in program.graph.nodes}
    assert (aten.linear.default in targets) == (name in LAYERS)
    assert targets.isdisjoint({aten.mm.default, aten.addmm.default}) == (name in LAYERS)
    torch.testing.assert_close(interpret(program, [x])[0], layer(x), rtol=1e-4, atol=1e-4)
