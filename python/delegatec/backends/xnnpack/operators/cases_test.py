# SPDX-License-Identifier: Apache-2.0
"""Every case becomes one delegate, with the operations that it names."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.common.testing import Call, Function, X, floats
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.grid import rejected, run_case
from delegatec.backends.xnnpack.testing.operators.all import ALL


@pytest.mark.parametrize("name", ALL)
def test_one_delegate(name: str) -> None:
    run_case(ALL[name])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name, case in ALL.items() if case.half is not None])
def test_one_delegate_in_float16(name: str) -> None:
    run_case(ALL[name], precision="fp16")


@pytest.mark.parametrize(
    "move", [lambda x: torch.cat([x, x], 1), lambda x: x[:, 1:], lambda x: f.pad(x, (1, 2))]
)
def test_copies_of_rows_stay_outside(move: Function) -> None:
    ((_, rule, message),) = rejected(move, (X,))
    assert rule == "trivial" and "only moves data" in message


def test_reasons() -> None:
    assert "Rank is at most 6" in rejected(lambda x: x + 1.0, (X[None, None, None, None],))[0][2]
    (left,) = rejected(torch.add, (torch.arange(3), torch.arange(3)))
    assert left[1] == "dtype" and "convert to float32" not in left[2]


def test_products_with_large_matrices_stay_outside() -> None:
    """A matrix of 4000 by 4000 zeros and ones was 64 MB of the program."""
    left = rejected(lambda x: x.neg().flip(1), (floats(2, 4000),))[0]
    assert left[:2] == ("aten.flip.default", "constant") and "4000 indices of 4000" in left[2]
    left = rejected(lambda x: x.neg().unfold(1, 100, 1), (floats(2, 300),))[0]
    assert left[0] == "aten.unfold.default"


def test_arguments_that_the_runtime_refuses() -> None:
    compiled = compile_module(Call(lambda x: x.exp().clamp(min=math.nan)), (X,))
    assert compiled.left == [] and compiled(X)[0].isnan().all()
    # a rounded quotient selects NaN for infinite operands
    left = rejected(lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, X))[0]
    assert left[0] == "aten.div.Tensor_mode" and "a value is NaN" in left[2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.nan_to_num(0.0),
        lambda x: torch.where(x == x, x, 0.0),
        lambda x: x.masked_fill((x > 3) | ~(~x.isnan()), 1.0),
        lambda x: torch.where(x.isfinite(), x, 2.0),
    ],
)
def test_nan_is_replaced_outside(function: Function) -> None:
    x = torch.tensor([1.0, math.nan, -2.0, math.inf, -math.inf])
    compiled = compile_module(Call(lambda x: function(x.neg())), (x,))
    assert any("NaN" in reason for _, _, reason in compiled.left)
    torch.testing.assert_close(compiled(x)[0], function(x.neg()))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.where(y == 0, 0.0, x / y),
        lambda x, y: (x / y).exp().masked_fill(y == 0, 1.0),
        lambda x, y: torch.where(x > 0, x.log(), -1.0),
        lambda x, y: torch.where(x > 0, x.sqrt() + y, y),
        lambda x, y: torch.where(x.abs() < 1, x.acos(), 0.0),
        lambda x, y: torch.where((x > 0) & (x < 1), x.logit(), 0.0),
        lambda x, y: torch.sinc(x),
        lambda x, y: torch.xlogy(x.abs(), x.abs()),
        lambda x, y: torch.digamma(y + 0.5),
        lambda x, y: x.masked_fill(x < 9, -math.inf).softmax(-1).masked_fill(x < 9, 0.0),
        lambda x, y: torch.where(y == 0, 0.0, (1 / y).clamp(min=0).sin()),
        lambda x, y: torch.where(y > 0, f.silu(y.relu().log()), 0.0),
    ],
)
def test_what_may_be_nan_is_replaced_outside(function: Function) -> None:
    """The executor's minima propagate NaN, as those of Arm CPUs do."""
    x, y = torch.tensor([0.0, 3.0, -2.0, 0.5]), torch.tensor([0.0, 0.0, 4.0, -1.0])
    compiled = compile_module(Call(lambda x, y: function(x.neg(), y.neg())), (x, y))
    assert any("it replaces what may be NaN" in reason for _, _, reason in compiled.left)
    torch.testing.assert_close(compiled(x, y)[0], function(x.neg(), y.neg()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.where(x > 20, x, x.exp().log1p()),
        lambda x: torch.where(x > 20, x, (x.exp() + 1).log()),
        lambda x: torch.where(x > 0, x, 1.7 * (x.exp() - 1)),
        lambda x: torch.where(x > 0, x.clamp(min=0.1).log(), 0.0),
        lambda x: x.masked_fill(x < 3, -math.inf).softmax(-1),
        f.softplus,
        f.mish,
        f.logsigmoid,
    ],
)
def test_infinities_are_replaced_in_the_delegate(function: Function) -> None:
    x = torch.tensor([0.0, 20.5, 88.0, 200.0, 1e4, -3.0, -200.0])
    compiled = compile_module(Call(lambda x: function(x.neg())), (x,))
    assert not compiled.left
    for each in (x, -x):
        torch.testing.assert_close(compiled(each)[0], function(each.neg()), rtol=1e-5, atol=1e-6)


def test_sizes_that_the_runtime_cannot_infer() -> None:
    one, other = torch.export.Dim("one", min=1, max=64), torch.export.Dim("other", min=1, max=64)

    def left(function: Function, args: tuple[torch.Tensor, ...], *sizes: dict[int, Any]) -> str:
        return compile_module(Call(function), args, (sizes,)).left[0][2]

    rows = floats(5, 4)
    assert "a norm of the sizes" in left(lambda x: f.layer_norm(x.exp(), x.shape[1:]), (rows,), {1: one})
    planes = floats(2, 5, 3, 4)
    assert "at most one other" in left(lambda x: f.layer_norm(x.exp(), (3, 4)), (planes,), {0: one, 1: other})
    joined = left(lambda x: x.exp().view(x.shape[0], -1, 4), (planes,), {0: one, 1: other})
    assert "as ['" in joined and "at most one dynamic dimension" in joined
    assert "a scale that follows" in left(
        lambda x: f.scaled_dot_product_attention(x, x, x), (planes,), {3: one}
    )
    grouped = left(
        lambda x, y: f.scaled_dot_product_attention(x, y, y, enable_gqa=True),
        (planes, floats(2, 1, 3, 4)),
        *({1: one, 2: other}, {}),
    )
    assert "a dynamic number of heads" in grouped


def test_sizes_without_a_lower_bound() -> None:
    """Inputs have elements, although `Dim` starts at 0 if `min` is not given."""
    batch = torch.export.Dim("batch", max=64)
    compiled = compile_module(Call(torch.exp), (floats(5, 4),), (({0: batch},),))
    assert compiled.delegates and not compiled.left
