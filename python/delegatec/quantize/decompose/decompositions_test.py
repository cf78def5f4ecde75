# SPDX-License-Identifier: Apache-2.0
"""Operators that are computed by others before quantization."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec import Model
from delegatec.edge.quantization.operators import QUANTIZE
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (torch.softmax, torch.float64),
        (torch.softmax, torch.float16),
        (torch.log_softmax, torch.float64),
        (torch.linalg.vector_norm, torch.float64),
    ],
)
def test_results_of_another_dtype(function: Any, dtype: torch.dtype) -> None:
    """They have it, and are quantized before."""

    class Converted(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x @ x.T, dim=-1, dtype=dtype)

    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Converted(), (x,), Settings()).methods.values()
    found, wanted = program.module(check_guards=False)(x), Converted()(x)
    assert found.dtype == dtype and signal_to_noise(wanted.float(), found.float()) > 25
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert [each for each in calls if each.meta["val"].dtype == dtype] == calls[-1:]


@pytest.mark.parametrize("order", [0, 0.5, 3, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms_of_other_orders_with_a_dtype(order: float, dtype: torch.dtype) -> None:
    """They are not decomposed."""

    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.vector_norm(x @ x.T, order, dim=-1, dtype=dtype)

    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Norm(), (x,), Settings()).methods.values()
    found = program.module(check_guards=False)(x)
    assert found.dtype == dtype and signal_to_noise(Norm()(x).float(), found.float()) > 20


def test_attention_of_empty_queries() -> None:
    """The default factor of their scores is 0 to the power of -0.5: a ZeroDivisionError in Python."""

    class Attention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            empty = x[..., :0]
            return nn.functional.scaled_dot_product_attention(empty, empty, x @ x.mT)

    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Attention(), (x,), Settings()).methods.values()
    assert signal_to_noise(Attention()(x), program.module(check_guards=False)(x)) > 25


@pytest.mark.parametrize(
    ("dims", "is_whole"),
    [({}, False), ({0: "batch"}, False), ({1: "rows"}, True), ({0: "batch", 1: "rows"}, True)],
)
def test_composites_of_dynamic_sizes_stay_whole(dims: dict[int, str], is_whole: bool) -> None:
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4)

        def forward(self, x: Tensor) -> Any:
            return torch.softmax(self.norm(x * 2), -1) * 3

    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    sizes = {dim: torch.export.Dim(name, min=1, max=9) for dim, name in dims.items()}
    methods = export(Model(Norm(), (x,), dynamic_shapes=({**sizes},)))
    (program,) = quantize_model(methods, {"forward": [((x,), {})]}, Settings()).methods.values()
    called = {node.target for node in program.graph.nodes if node.op == "call_function"}
    whole = {torch.ops.aten.layer_norm.default, torch.ops.aten.softmax.int}
    assert (whole <= called) == is_whole and (not whole & called) != is_whole
    assert signal_to_noise(Norm()(x), program.module(check_guards=False)(x)) > 20


class HalfAttention(nn.Module):
    """Attention in another dtype than a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), F.scaled_dot_product_attention(half, half, half, is_causal=True)


def test_composites_in_other_dtypes_stay_whole() -> None:
    """The number for masked scores does not fit float16."""
    inputs = torch.randn(4, 8), torch.randn(1, 4, 8).half()
    (program,) = quantized(HalfAttention(), inputs, Settings()).methods.values()
    _, found = program.module(check_guards=False)(*inputs)
    assert torch.equal(found, HalfAttention()(*inputs)[1])


class Grouped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, 1) + 1


def test_norms_of_empty_groups() -> None:
    (program,) = quantized(Grouped(), (torch.ones(0, 2, 3),), Settings()).methods.values()
    assert program.module(check_guards=False)(torch.ones(0, 2, 3)).shape == (0, 2, 3)


@pytest.mark.parametrize(
    "function", [F.binary_cross_entropy, F.mse_loss, F.smooth_l1_loss, F.soft_margin_loss]
)
def test_losses_of_float16_stay_in_float(function: Any) -> None:
    class Loss(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, function(y, 1 - y)

    x = torch.rand(6, 6, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Loss(), (x, x.half()), Settings()).methods.values()
    assert torch.equal(program.module(check_guards=False)(x, x.half())[1], Loss()(x, x.half())[1])
    assert [node for node in program.graph.nodes if node.target is QUANTIZE]
    assert lower({"forward": program}).programs


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_logarithms_of_a_loss_have_their_range(reduction: str) -> None:
    class Loss(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.binary_cross_entropy(x.sigmoid(), x.flip(0).sigmoid(), x.abs(), reduction=reduction)

    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Loss(), (x,), Settings()).methods.values()
    assert signal_to_noise(Loss()(x), program.module(check_guards=False)(x)) > 33


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
def test_a_softmax_of_nothing(function: Any) -> None:
    class Empty(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, function(x[:, :0], 1)

    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Empty(), (x,), Settings()).methods.values()
    assert program.module(check_guards=False)(x)[1].shape == (6, 0)
