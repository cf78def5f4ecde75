# SPDX-License-Identifier: Apache-2.0
"""Annotations, by the printed graphs of quantized modules."""

from __future__ import annotations

import textwrap
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.quantize.testing import text

_X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
_ROWS = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))


def _check(module: nn.Module, inputs: tuple[Tensor, ...], expected: str, **settings: Any) -> None:
    assert text(module, inputs, **settings) == textwrap.dedent(expected).strip()


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, groups=8, padding=1, bias=False)
        nn.init.ones_(self.deep.weight)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        wide = F.relu(self.norm(self.wide(x)))
        deep = F.hardtanh(self.deep(wide), 0, 6)
        both = torch.cat([wide + deep, F.max_pool2d(deep, 3, 1, 1)], 1)
        result: Tensor = self.head(both.mean((2, 3)))
        return result


def test_layers_norms_and_bounds_are_fused_and_moves_share() -> None:
    expected = """
        conv2d = conv2d(x:0, wide_weight:channels, wide_bias:channels)
        relu:1 = relu(conv2d)
        conv2d_1 = conv2d(relu:1, deep_weight:channels)
        hardtanh:2 = hardtanh(conv2d_1)
        add:2 = add.Tensor(relu:1, hardtanh:2)
        max_pool2d:2 = max_pool2d(hardtanh:2)
        cat:2 = cat(add:2, max_pool2d:2)
        mean:3 = mean.dim(cat:2)
        linear:4 = linear(mean:3, head_weight:channels, head_bias:channels)
        return linear:4
    """
    _check(Pictures(), (_X,), expected)


def test_one_scale_per_weight_and_wide_activations() -> None:
    expected = """
        linear:3i16 = linear(input:2i16, weight:0, bias:1i32)
        relu:4i16 = relu(linear:3i16)
        return linear:3i16, relu:4i16
    """

    class Twice(nn.Linear):
        def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            result = super().forward(input)
            return result, F.relu(result)

    module = Twice(8, 4)
    nn.init.constant_(module.bias, -3)
    _check(module, (_ROWS,), expected, activation="int16", weight_scales="tensor")


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.head(self.norm(x)), -1)


def test_norms_and_softmax_have_inner_parameters() -> None:
    expected = """
        mean:3 = mean.dim(x:2)
        sub:4 = sub.Tensor(x:2, mean:3)
        mul:5 = mul.Tensor(sub:4)
        mean_1:6 = mean.dim(mul:5)
        add:7 = add.Tensor(mean_1:6)
        rsqrt:8 = rsqrt(add:7)
        mul_1:9 = mul.Tensor(sub:4, rsqrt:8)
        mul_2:9 = mul.Tensor(mul_1:9, norm_weight:0)
        add_1:9 = add.Tensor(mul_2:9, norm_bias:1)
        linear:10 = linear(add_1:9, head_weight:channels, head_bias:channels)
        amax:10 = amax(linear:10)
        sub_1 = sub.Tensor(linear:10, amax:10)
        clamp_min:11 = clamp_min(sub_1)
        exp:12 = exp(clamp_min:11)
        sum_1:13 = sum.dim_IntList(exp:12)
        reciprocal:14 = reciprocal(sum_1:13)
        mul_3:15 = mul.Tensor(exp:12, reciprocal:14)
        return mul_3:15
    """
    _check(Normalized(), (_ROWS,), expected)


def test_inner_values_may_be_wider() -> None:
    """Results of composites, and operands of layers, are not."""
    expected = """
        mean:3i16 = mean.dim(x:2)
        sub:4i16 = sub.Tensor(x:2, mean:3i16)
        mul:5i16 = mul.Tensor(sub:4i16)
        mean_1:6i16 = mean.dim(mul:5i16)
        add:7i16 = add.Tensor(mean_1:6i16)
        rsqrt:8i16 = rsqrt(add:7i16)
        mul_1:9i16 = mul.Tensor(sub:4i16, rsqrt:8i16)
        mul_2:9i16 = mul.Tensor(mul_1:9i16, norm_weight:0)
        add_1:10 = add.Tensor(mul_2:9i16, norm_bias:1)
        linear:11 = linear(add_1:10, head_weight:channels, head_bias:channels)
        amax:11 = amax(linear:11)
        sub_1 = sub.Tensor(linear:11, amax:11)
        clamp_min:12i16 = clamp_min(sub_1)
        exp:13i16 = exp(clamp_min:12i16)
        sum_1:14i16 = sum.dim_IntList(exp:13i16)
        reciprocal:15i16 = reciprocal(sum_1:14i16)
        mul_3:16 = mul.Tensor(exp:13i16, reciprocal:15i16)
        return mul_3:16
    """
    _check(Normalized(), (_ROWS,), expected, inner="int16")


def test_masked_attention_has_no_infinite_parameters() -> None:
    class Attention(nn.Module):
        def forward(self, q: Tensor, mask: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, q, q, mask)

    torch.manual_seed(0)
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    mask[0] = False
    printed = text(Attention(), (torch.randn(1, 2, 4, 8), mask))
    for line in (
        "masked_fill:2 = masked_fill.Scalar(view_2:2, logical_not)",
        "amax:2 = amax(masked_fill:2)",
        "masked_fill_1:4 = masked_fill.Scalar(exp:4, logical_not)",
        "clamp_min_1:5 = clamp_min(sum_1:5)",
    ):
        assert line in printed.splitlines(), printed


class Moves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.up = nn.BatchNorm2d(3), nn.ConvTranspose2d(3, 6, 2, 2, groups=3)
        self.words = nn.Embedding(5, 4)

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        a, b = self.up(self.norm(x).sigmoid()).split(3, 1)
        ratio = (a / (1 + b.abs())).amax(1)
        return torch.where(a > b, a, b * 2.0), self.words(i).flip(0), ratio


def test_lone_norms_parts_comparisons_and_divisions() -> None:
    expected = """
        mul:6 = mul.Tensor(x:3, norm_scale:4)
        add:6 = add.Tensor(mul:6, norm_shift:5)
        sigmoid:7 = sigmoid(add:6)
        conv_transpose2d:8 = conv_transpose2d.input(sigmoid:7, up_weight:0, up_bias:1i32)
        split_with_sizes = split_with_sizes(conv_transpose2d:8)
        getitem:8 = <built-in function getitem>(split_with_sizes)
        getitem_1:8 = <built-in function getitem>(split_with_sizes)
        abs_1:9 = abs(getitem_1:8)
        add_1:10 = add.Tensor(abs_1:9)
        reciprocal:11 = reciprocal(add_1:10)
        mul_1:12 = mul.Tensor(getitem:8, reciprocal:11)
        amax:12 = amax(mul_1:12)
        gt = gt.Tensor(getitem:8, getitem_1:8)
        mul_2:8 = mul.Tensor(getitem_1:8)
        where:8 = where.self(gt, getitem:8, mul_2:8)
        embedding:2 = embedding(words_weight:2, i)
        flip:2 = flip(embedding:2)
        return where:8, flip:2, amax:12
    """
    _check(Moves(), (_X, torch.tensor([1, 2])), expected)


def test_modules_and_operators_in_float() -> None:
    layers = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 8))
    expected = """
        linear:1 = linear(input:0, 0_weight:channels, 0_bias:channels)
        linear_1 = linear(linear:1, 1_0_weight, 1_0_bias)
        tanh:2 = tanh(linear_1)
        linear_2:3 = linear(tanh:2, 2_weight:channels, 2_bias:channels)
        return linear_2:3
    """
    _check(layers, (_ROWS,), expected, float_modules=("1",))
    printed = text(Normalized(), (_ROWS,), float_operators=("aten.softmax",))
    assert printed.splitlines()[-3:] == [
        "linear:10 = linear(add_1:9, head_weight:channels, head_bias:channels)",
        "softmax = softmax.int(linear:10)",
        "return softmax",
    ]


def test_tables_of_positions_are_constants() -> None:
    class Positions(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            angles = torch.arange(4)[:, None] * torch.pow(10.0, -torch.arange(8) / 8)
            return x * torch.cos(angles) + torch.zeros_like(angles)

    _check(
        Positions(),
        (_ROWS,),
        """
        mul:2 = mul.Tensor(x:0, cos_value:1)
        add:2 = add.Tensor(mul:2, zeros_like_value:3)
        return add:2
        """,
    )


def test_a_constant_and_what_is_chosen_from_it_have_one_range() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.ones(3, 4))

        def forward(self, mask: Tensor) -> tuple[Tensor, ...]:
            value = self.table.where(mask, 0.1)
            joined = torch.cat([value, self.table, value], -2).atan()
            return F.pad(joined, (-1, 1), value=-3.25), value.amax(-1)

    _check(
        Chosen(),
        (torch.tensor(True),),
        """
        where:0 = where.self(mask, table:0, scalar_tensor_value:0)
        cat:0 = cat(where:0, table:0)
        atan:1 = atan(cat:0)
        constant_pad_nd:1 = constant_pad_nd(atan:1)
        amax:0 = amax(where:0)
        return constant_pad_nd:1, amax:0
        """,
    )
