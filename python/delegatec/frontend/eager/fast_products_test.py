# SPDX-License-Identifier: Apache-2.0
"""Programs with fast products compute the same, and nothing of them stays enabled."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from delegatec.frontend.eager.fast_products import fast_convolutions, replace_linear_layers

torch.manual_seed(0)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(24, 40), (3, 5, 24)),
        (nn.Linear(24, 40, bias=False), (24,)),
        (nn.Linear(24, 40), (0, 24)),
        (nn.Linear(24, 40).double(), (3, 24)),
        (nn.Conv2d(3, 8, 3, padding=1), (2, 3, 9, 9)),
    ],
    ids=str,
)
def test_results(layer: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=next(layer.parameters()).dtype)
    module = torch.export.export(layer.eval(), (x,)).module()
    replace_linear_layers(module)
    with torch.no_grad():
        expected = layer(x)
        with fast_convolutions():
            result = module(x)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)


def test_only_float32_layers_are_replaced() -> None:
    def replaced(layer: nn.Module, x: torch.Tensor) -> bool:
        module = torch.export.export(layer, (x,)).module()
        replace_linear_layers(module)
        assert isinstance(module, torch.fx.GraphModule)
        return not module.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)

    assert replaced(nn.Linear(4, 4), torch.ones(2, 4))
    assert not replaced(nn.Linear(4, 4).double(), torch.ones(2, 4).double())


def test_convolutions_are_as_before_after_the_scope() -> None:
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        with fast_convolutions():
            assert torch.backends.mkldnn.enabled
        assert not torch.backends.mkldnn.enabled
    finally:
        torch.backends.mkldnn.set_flags(before)  # type: ignore[no-untyped-call]
