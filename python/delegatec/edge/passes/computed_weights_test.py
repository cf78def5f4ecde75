# SPDX-License-Identifier: Apache-2.0
"""Weights that a model computes from its parameters in each call are computed once, in lowering."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.passes.fold_constants import fold_constants
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, called, edge

aten = torch.ops.aten
ROWS = torch.linspace(-1, 1, 400).view(2, 200)
WEIGHT = torch.linspace(-2, 3, 40_000).view(200, 200)


class StandardizedConv(nn.Conv2d):
    """Weight standardization as in NFNets, by means and deviations, or as a batch norm."""

    def __init__(self, as_batch_norm: bool) -> None:
        super().__init__(24, 96, 3)
        self.gain = nn.Parameter(torch.rand(96) + 0.5)
        self.as_batch_norm = as_batch_norm

    def forward(self, x: Tensor) -> Tensor:
        if self.as_batch_norm:
            rows = self.weight.reshape(1, 96, -1)
            weight = nn.functional.batch_norm(rows, None, None, self.gain, training=True, momentum=0).view_as(
                self.weight
            )
        else:
            deviation, mean = torch.std_mean(self.weight, dim=(1, 2, 3), keepdim=True)
            weight = (self.weight - mean) / (deviation + 1e-6) * self.gain.view(-1, 1, 1, 1)
        return nn.functional.conv2d(x, weight, self.bias)


def _conv() -> nn.Module:
    return nn.Conv2d(24, 96, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.utils.weight_norm(_conv()),
        lambda: nn.utils.parametrizations.weight_norm(_conv()),
        lambda: nn.utils.parametrizations.weight_norm(nn.ConvTranspose2d(24, 96, 3), dim=1),
        lambda: nn.utils.spectral_norm(_conv()),
        lambda: nn.utils.parametrizations.spectral_norm(_conv()),
        lambda: StandardizedConv(as_batch_norm=False),
        lambda: StandardizedConv(as_batch_norm=True),
    ],
)
def test_a_normalized_weight_is_one_constant(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(2, 24, 5, 6)
    program = edge(module, x, preserve=KERNEL_COMPOSITES)
    assert called(program) == [aten.convolution.default]
    assert sorted(constant.numel() for constant in program.constants.values()) == [96, 24 * 96 * 9]
    assert_computes(program, module(x), x, rtol=1e-4, atol=1e-5)


def _program(function: Callable[[Any, Tensor], Any], **buffers: Tensor) -> EdgeProgram:
    model = Function(function, **buffers)
    program = edge(model, ROWS, preserve=KERNEL_COMPOSITES)
    assert_computes(program, model(ROWS), ROWS, rtol=1e-4, atol=1e-3)
    return program


@pytest.mark.parametrize("change", [lambda a: nn.functional.normalize(a, dim=0), lambda a: (a * 3).T])
def test_the_weight_of_a_layer_is_computed_though_others_read_the_parameter(
    change: Callable[[Tensor], Tensor],
) -> None:
    program = _program(lambda self, x: (x @ change(self.a), x @ self.a), a=WEIGHT)
    assert called(program).count(aten.mm.default) == 2 and len(called(program)) <= 3
    assert len(program.constants) == 2


def test_other_values_are_stored_if_they_are_dear() -> None:
    cheap = _program(lambda self, x: (x[0] + self.a * 3, x @ self.a), a=WEIGHT)
    assert aten.mul.Scalar in called(cheap) and len(cheap.constants) == 1
    dear = _program(lambda self, x: (x[0] + (self.a * 3).sigmoid().cumsum(0), x @ self.a), a=WEIGHT)
    assert called(dear) == [aten.select.int, aten.add.Tensor, aten.mm.default] and len(dear.constants) == 2


def test_a_weight_is_replaced_by_the_sum_of_its_branches() -> None:
    names = "abc"
    program = _program(
        lambda self, x: x @ (self.a + self.b * 2 + self.c), **{name: WEIGHT + ord(name) for name in names}
    )
    assert called(program) == [aten.mm.default] and len(program.constants) == 1


def test_a_product_of_thick_factors_is_one_constant() -> None:
    thick = _program(lambda self, x: x @ (self.a @ self.b), a=WEIGHT[:, :50], b=WEIGHT[:50])
    assert called(thick) == [aten.mm.default]
    thin = _program(lambda self, x: x @ (self.a @ self.b), a=WEIGHT[:, :2], b=WEIGHT[:2])
    assert called(thin) == [aten.mm.default] * 2


def test_a_table_of_relative_positions_is_looked_up() -> None:
    """As in TinyViT: 196 values for each head become 38416."""
    line = torch.arange(14)
    offsets = (line[:, None] - line).abs()
    positions = (offsets[:, None, :, None] * 14 + offsets[None, :, None, :]).reshape(196, 196)
    scores = torch.randn(5, 196, 196)

    def function(self: Any, x: Tensor) -> Tensor:
        looked_up: Tensor = x + self.table[:, self.positions]
        return looked_up

    model = Function(function, table=torch.rand(5, 196), positions=positions)
    program = edge(model, scores)
    assert called(program) == [aten.add.Tensor]
    assert_computes(program, model(scores), scores)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: (self.a[0] * self.a[:2, 0, None]) + x,
        lambda self, x: x[0] + torch.where(torch.arange(200) > torch.arange(200)[:, None], -9.0, 0.0),
        lambda self, x: x[0] + torch.arange(40_000.0).view(200, 200).sin(),
        lambda self, x: x[0] + self.a[0, :1].expand(200, 200),
        lambda self, x: x + self.a[0, :100].repeat(200, 2)[:2],
        lambda self, x: x[0] + self.a[0][torch.arange(40_000).view(200, 200) % 7],
    ],
)
def test_nothing_explodes(function: Callable[[Any, Tensor], Tensor]) -> None:
    program = _program(function, a=WEIGHT)
    assert all(constant.nbytes <= WEIGHT.nbytes for constant in program.constants.values())
    assert sum(constant.nbytes for constant in program.constants.values()) < 1.5 * WEIGHT.nbytes


def test_quantized_weights_stay_quantized() -> None:
    quantized = torch.arange(40_000).view(200, 200).remainder(255).sub(127).to(torch.int8)

    def function(self: Any, x: Tensor) -> Tensor:
        weight = (self.quantized.float() - self.zero) * self.scale[:, None]
        result: Tensor = x @ (weight - weight.mean(0)).softmax(0)
        return result

    program = _program(function, quantized=quantized, zero=torch.ones(200), scale=torch.rand(200))
    assert quantized.data_ptr() in [constant.data_ptr() for constant in program.constants.values()]
    assert all(constant.numel() <= 200 for constant in program.constants.values() if constant.ndim < 2)


def test_the_weights_of_state_are_computed_in_each_call() -> None:
    def function(self: Any, x: Tensor) -> Tensor:
        result = x @ nn.functional.normalize(self.a, dim=0)
        self.a.mul_(2)
        return result

    program = edge(Function(function, a=WEIGHT.clone()), ROWS, preserve=KERNEL_COMPOSITES)
    assert len(called(program)) > 3


class _Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the largest number of bytes of results that are alive at one time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest = self._alive = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if type(result) is Tensor and result._base is None and result.device.type == "cpu":
            storage = result.untyped_storage()
            self._alive += storage.nbytes()
            self.largest = max(self.largest, self._alive)
            weakref.finalize(storage, self._end, storage.nbytes())
        return result

    def _end(self, size: int) -> None:
        self._alive -= size


def test_intermediate_results_are_not_in_memory_at_the_same_time() -> None:
    """All weights are normalized first, as PT2E dequantizes them; each in several calls."""
    count = 12

    def function(self: Any, x: Tensor) -> Tensor:
        weights = [nn.functional.normalize(getattr(self, f"a{n}"), dim=0) for n in range(count)]
        for weight in weights:
            x = x @ weight
        return x

    model = Function(function, **{f"a{n}": WEIGHT + n for n in range(count)})
    exported = edge(model, ROWS, preserve=KERNEL_COMPOSITES, passes=())
    with _Alive() as alive:
        assert fold_constants(exported)
    assert len(called(exported)) == count
    assert count * WEIGHT.nbytes <= alive.largest < (count + 4) * WEIGHT.nbytes
