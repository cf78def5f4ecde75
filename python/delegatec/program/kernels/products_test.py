# SPDX-License-Identifier: Apache-2.0
"""Convolutions and `addmm` become matrix products that compute the same."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.module import EdgeModule
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.program.kernels import products
from delegatec.program.kernels.legalize import legalize

aten = torch.ops.aten
RANDOM = torch.Generator().manual_seed(0)


def _tensor(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=RANDOM)


def _legal(function: Any, *inputs: Any, **options: Any) -> EdgeProgram:
    program = edge(function, *inputs, passes=(), **options)
    legalize(program)
    return program


def _convolve(*arguments: Any) -> Any:
    return lambda x, weight, bias: aten.convolution.default(x, weight, bias, *arguments)


def test_a_convolution_is_a_product_of_patches() -> None:
    convolve = _convolve([2, 1], [1, 1], [1, 1], False, [0, 0], 1)
    program = _legal(convolve, _tensor(1, 3, 8, 6), _tensor(4, 3, 3, 3), _tensor(4))
    text = re.sub(r"  #.*", "", print_program(program))
    assert (
        text
        == """\
forward(%args_0: f32[1, 3, 8, 6], %args_1: f32[4, 3, 3, 3], %args_2: f32[4]):
  %3: f32[1, 4, 27] = aten.view.default(%args_1, [1, 4, 27])
  %4: f32[1, 3, 10, 8] = aten.constant_pad_nd.default(%args_0, [1, 1, 1, 1], 0.0)
  %5: f32[1, 3, 3, 3, 4, 6] = aten.as_strided.default(%4, [1, 3, 3, 3, 4, 6], [240, 80, 8, 1, 16, 1], 0)
  %6: f32[1, 27, 24] = aten.view.default(%5, [1, 27, 24])
  %7: f32[1, 4, 24] = aten.bmm.default(%3, %6)
  %8: f32[4, 1] = aten.view.default(%args_2, [4, 1])
  %9: f32[1, 4, 24] = aten.add.Tensor(%7, %8)
  %10: f32[1, 4, 4, 6] = aten.view.default(%9, [1, 4, 4, 6])
  return [%10]
"""
    )


# Shapes of input and weight, whether there is a bias; stride, padding, dilation, groups.
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "pointwise": ((1, 4, 5, 6), (3, 4, 1, 1), True, [1, 1], [0, 0], [1, 1], 1),
    "pointwise_strided": ((1, 4, 6, 7), (3, 4, 1, 1), True, [2, 3], [0, 0], [1, 1], 1),
    "pointwise_padded": ((1, 4, 5, 6), (3, 4, 1, 1), False, [2, 1], [1, 2], [1, 1], 1),
    "padded": ((1, 2, 7, 6), (3, 2, 3, 3), True, [1, 1], [1, 1], [1, 1], 1),
    "strided": ((1, 2, 9, 8), (3, 2, 3, 2), True, [2, 3], [1, 0], [1, 1], 1),
    "dilated": ((1, 2, 9, 8), (3, 2, 3, 2), False, [1, 2], [2, 1], [2, 3], 1),
    "one_tap_in_a_row": ((1, 2, 9, 8), (3, 2, 1, 3), True, [2, 1], [0, 1], [1, 1], 1),
    "unread_border": ((1, 2, 9, 9), (3, 2, 2, 2), True, [4, 4], [0, 0], [1, 1], 1),
    "depthwise": ((1, 4, 6, 6), (4, 1, 3, 3), True, [1, 1], [1, 1], [1, 1], 4),
    "groups": ((1, 4, 6, 6), (6, 2, 3, 3), False, [2, 2], [1, 1], [1, 1], 2),
    "batch": ((3, 4, 6, 6), (6, 2, 3, 3), True, [1, 1], [1, 1], [1, 1], 2),
    "one_number_for_both": ((1, 2, 7, 6), (3, 2, 3, 3), True, [2], [1], [1], 1),
    "one_dimension": ((2, 4, 9), (3, 4, 3), True, [2], [1], [1], 1),
    "three_dimensions": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), True, [1, 2, 1], [0, 1, 1], [1, 1, 2], 1),
    "the_whole_input": ((1, 2, 4, 4), (3, 2, 4, 4), True, [1, 1], [0, 0], [1, 1], 1),
}


@pytest.mark.parametrize("room", [300, 1000, products._MAX_PATCH_BYTES])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_products_have_the_results_of_convolutions(
    name: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any number of strips."""
    monkeypatch.setattr(products, "_MAX_PATCH_BYTES", room)
    sizes, weights, has_bias, stride, padding, dilation, groups = CONVOLUTIONS[name]
    convolve = _convolve(stride, padding, dilation, False, [0] * len(stride), groups)
    inputs = (_tensor(*sizes), _tensor(*weights), _tensor(weights[0]) if has_bias else None)
    program = _legal(convolve, *inputs)
    assert aten.convolution.default not in called(program)
    assert_computes(program, convolve(*inputs), *inputs, atol=2e-6)


def test_a_pointwise_convolution_multiplies_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MAX_PATCH_BYTES", 0)
    convolve = _convolve([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    program = _legal(convolve, _tensor(1, 3, 8, 6), _tensor(4, 3, 1, 1), None)
    assert called(program) == [aten.view.default, aten.view.default, aten.bmm.default, aten.view.default]


def test_strips_share_the_memory_of_their_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    convolve = _convolve([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    inputs = (_tensor(1, 8, 16, 16), _tensor(8, 8, 3, 3), None)
    unsplit = _legal(convolve, *inputs)
    monkeypatch.setattr(products, "_MAX_PATCH_BYTES", 0)
    strips = _legal(convolve, *inputs)
    assert (called(unsplit).count(aten.bmm.default), called(strips).count(aten.bmm.default)) == (1, 16)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_nonfinite_values_reach_the_same_elements(number: float) -> None:
    x = _tensor(1, 2, 6, 6)
    x[0, 1, 2, 3] = number
    convolve = _convolve([1, 2], [1, 1], [1, 1], False, [0, 0], 1)
    inputs = (x, _tensor(3, 2, 3, 3), _tensor(3))
    assert_computes(_legal(convolve, *inputs), convolve(*inputs), *inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_products_have_the_dtype_of_convolutions(dtype: torch.dtype) -> None:
    """float16 is summed in float32, as in eager mode."""
    convolve = _convolve([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    inputs = tuple(each.to(dtype) for each in (_tensor(1, 64, 3, 3), _tensor(2, 64, 3, 3), _tensor(2)))
    wide = convolve(*(each.double() for each in inputs)).to(dtype)
    eps = torch.finfo(dtype).eps
    assert_computes(_legal(convolve, *inputs), wide, *inputs, atol=eps, rtol=eps)


def test_other_convolutions_stay() -> None:
    transposed = _convolve([1, 1], [0, 0], [1, 1], True, [0, 0], 1)
    inputs = (_tensor(1, 2, 4, 4), _tensor(2, 3, 2, 2), None)
    assert called(_legal(transposed, *inputs)) == [aten.convolution.default]
    dynamic = _convolve([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    height = {2: Dim("height", min=3, max=9)}
    program = _legal(dynamic, *inputs[:1], _tensor(3, 2, 2, 2), None, dynamic_shapes=(height, None, None))
    assert called(program) == [aten.convolution.default]


def test_images_that_would_each_need_a_large_weight_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_MAX_PATCH_BYTES", 0)
    convolve = _convolve([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    inputs = (_tensor(2, 2, 3, 3), _tensor(64, 2, 3, 3), None)
    assert called(_legal(convolve, *inputs)) == [aten.convolution.default]


NOTHING = torch.zeros(3, 0)


@pytest.mark.parametrize(
    ("product", "inputs"),
    [
        (torch.mm, (NOTHING, NOTHING.T)),
        (torch.bmm, (NOTHING[None], NOTHING.T[None])),
        (torch.addmm, (_tensor(3), NOTHING, NOTHING.T)),
        (torch.nn.functional.linear, (NOTHING, NOTHING)),
        (torch.nn.functional.linear, (NOTHING, NOTHING, _tensor(3))),
    ],
)
def test_a_sum_of_no_terms_is_zero(product: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    program = _legal(product, *inputs, preserve=KERNEL_COMPOSITES)
    products = {aten.mm.default, aten.bmm.default, aten.addmm.default, aten.linear.default}
    assert not products & set(called(program))
    assert_computes(program, product(*inputs), *inputs)


def test_addmm_is_a_product_and_a_sum() -> None:
    inputs = (_tensor(5), _tensor(3, 4), _tensor(4, 5))
    program = _legal(torch.addmm, *inputs)
    assert called(program) == [aten.mm.default, aten.add.Tensor]
    assert_computes(program, torch.addmm(*inputs), *inputs)
    rows = {0: Dim("rows", min=2, max=9)}
    program = _legal(torch.addmm, *inputs, dynamic_shapes=(None, rows, None))
    assert called(program) == [aten.mm.default, aten.add.Tensor]


def test_addmm_with_factors_stays() -> None:
    inputs = (_tensor(5), _tensor(3, 4), _tensor(4, 5))
    program = _legal(lambda *x: torch.addmm(*x, beta=2), *inputs)
    assert called(program) == [aten.addmm.default]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("product", "sizes"),
    [
        (torch.mm, [(7, 300), (300, 5)]),
        (torch.bmm, [(2, 7, 300), (2, 300, 5)]),
        (torch.nn.functional.linear, [(7, 300), (5, 300), (5,)]),
        (torch.nn.functional.linear, [(2, 3, 300), (5, 300)]),
    ],
)
def test_products_of_halves_are_rounded_once(product: Any, sizes: list[Any], dtype: torch.dtype) -> None:
    inputs = [_tensor(*each).to(dtype) for each in sizes]
    program = _legal(product, *inputs, preserve=KERNEL_COMPOSITES)
    products = [node for node in program.graph.nodes if len(node.all_input_nodes) > 1]
    assert {node.meta["val"].dtype for node in products} == {torch.float32}
    result = EdgeModule(program)(*inputs)
    exact = product(*(each.double() for each in inputs))
    assert (result - exact).abs().max() <= (product(*inputs) - exact).abs().max()
    torch.testing.assert_close(result, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-5)


def test_a_linear_layer_of_one_row_keeps_its_weight() -> None:
    inputs = [_tensor(*each).half() for each in ((1, 30), (5, 30))]
    program = _legal(torch.nn.functional.linear, *inputs, preserve=KERNEL_COMPOSITES)
    assert called(program) == [aten.linear.default]


def test_addmm_ignores_an_operand_with_a_factor_of_zero() -> None:
    """The kernel returns NaN for infinities times zero."""
    inputs = (torch.full((5,), math.inf), _tensor(3, 4), _tensor(4, 5))
    without_bias = partial(torch.addmm, beta=0)
    program = _legal(without_bias, *inputs)
    assert called(program) == [aten.mm.default]
    assert_computes(program, without_bias(*inputs), *inputs)
    without_product = partial(torch.addmm, alpha=0)
    inputs = (_tensor(5), torch.full((3, 4), math.inf), _tensor(4, 5))
    assert_computes(_legal(without_product, *inputs), without_product(*inputs), *inputs)
