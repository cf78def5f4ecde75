# SPDX-License-Identifier: Apache-2.0
"""Channels-last operators have the results of torch; integers are exact."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as f

from delegatec.edge.channels_last.operators import NHWC


def _last(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(1, -1).contiguous()


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _integers(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(limits.min, limits.max + 1, shape, dtype=dtype, generator=generator)


def _checked(operator: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Calls an operator, also on fake tensors, which have to infer its dtype and shape."""
    result: torch.Tensor = operator(*args, **kwargs)
    mode = FakeTensorMode()
    with mode:
        tensors = (mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args)
        fake = operator(*tensors, **kwargs)
    assert (fake.dtype, fake.shape) == (result.dtype, result.shape)
    assert result.is_contiguous()
    return result


@pytest.mark.parametrize(
    ("groups", "stride", "dilation", "biased"),
    [*itertools.product((1, 2, 6), ([1, 1], [2, 1]), ([1, 1], [2, 3]), (True, False))],
)
def test_convolution_of_images(groups: int, stride: list[int], dilation: list[int], biased: bool) -> None:
    x, weight = _normal(2, 6, 9, 11), _normal(12, 6 // groups, 3, 2, seed=1)
    bias = _normal(12, seed=2) if biased else None
    padded = f.pad(x, (3, 0, 1, 2))
    wanted = f.conv2d(padded, weight, bias, stride, 0, dilation, groups)
    result = _checked(
        NHWC.conv2d.default, _last(x), _last(weight), bias, stride, [1, 2, 3, 0], dilation, groups
    )
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_weights_in_the_order_of_aten(groups: int) -> None:
    x, weight, bias = _normal(2, 6, 9, 11), _normal(6, 6 // groups, 3, 2, seed=1), _normal(6, seed=2)
    wanted = f.conv2d(x, weight, bias, (2, 3), 0, (1, 2), groups)
    args = [2, 3], [0] * 4, [1, 2], groups
    result = _checked(NHWC.conv2d.default, _last(x), weight, bias, *args, weight_order="OIHW")
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)
    row = weight[:, :, 0]
    result = _checked(NHWC.conv2d.default, _last(x), row, bias, *args, weight_order="OIW")
    wanted = f.conv2d(x, row.unsqueeze(2), bias, (2, 3), 0, (1, 2), groups)
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)


def test_convolution_of_volumes() -> None:
    x, weight, bias = _normal(1, 3, 5, 6, 7), _normal(4, 3, 2, 3, 2, seed=1), _normal(4, seed=2)
    wanted = f.conv3d(f.pad(x, (4, 0, 2, 1, 0, 3)), weight, bias, (2, 1, 1), 0, (1, 2, 1))
    padding = [0, 3, 2, 1, 4, 0]
    result = _checked(NHWC.conv3d.default, _last(x), _last(weight), bias, [2, 1, 1], padding, [1, 2, 1])
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)


def test_transposed_convolution_of_rows() -> None:
    x, weight, bias = _normal(2, 3, 7), _normal(3, 4, 3, seed=1), _normal(4, seed=2)
    wanted = f.conv_transpose1d(x, weight, bias, 2, 1, 1)
    result = _checked(NHWC.conv_transpose1d.default, _last(x), weight.permute(1, 2, 0), bias, [2], [-1, 0])
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)


def test_transposed_convolution() -> None:
    x, weight, bias = _normal(2, 3, 4, 5), _normal(3, 4, 3, 2, seed=1), _normal(4, seed=2)
    wanted = f.conv_transpose2d(x, weight, bias, (2, 3), (1, 0), (1, 2))
    last = weight.permute(1, 2, 3, 0).contiguous()
    result = _checked(NHWC.conv_transpose2d.default, _last(x), last, bias, [2, 3], [-1, 0, 0, 2])
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution_with_dilation_and_groups(groups: int) -> None:
    x, weight, bias = _normal(2, 4, 4, 5), _normal(4, 3, 3, 2, seed=1), _normal(3 * groups, seed=2)
    wanted = f.conv_transpose2d(x, weight, bias, (2, 3), (1, 0), (1, 2), groups, (1, 2))
    result = _checked(
        *(NHWC.conv_transpose2d.default, _last(x), weight, bias, [2, 3], [-1, 0, 0, 2]),
        dilation=[1, 2],
        groups=groups,
        weight_order="IOHW",
    )
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_integer_convolutions_are_exact(dtype: torch.dtype) -> None:
    x, weight = _integers(dtype, 1, 5, 6, 64), _integers(torch.int8, 4, 3, 3, 64, seed=1)
    wide = torch.int32 if dtype == torch.int8 else torch.int64
    bias = torch.tensor([7, -(2**29), 2**29, 0], dtype=wide)
    args = [1, 1], [1, 1, 1, 1], [1, 1], 1, 5, -3
    result = _checked(NHWC.conv2d.default, x, weight, bias, *args)
    assert result.dtype == wide
    padded = f.pad(x.long() - 5, (0, 0, 1, 1, 1, 1))
    kernel = (weight.long() + 3).flatten(1)
    for row, column in itertools.product(range(5), range(6)):
        window = padded[0, row : row + 3, column : column + 3].reshape(-1)
        assert torch.equal(result[0, row, column].long(), kernel @ window + bias.long())
    spread = _checked(NHWC.conv_transpose2d.default, x, weight, bias, [1, 1], [-1, -1, -1, -1], 5, -3)
    mirrored = _checked(NHWC.conv2d.default, x, weight.flip(1, 2), bias, *args)
    assert torch.equal(spread, mirrored)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_max_pool(dtype: torch.dtype) -> None:
    x = _normal(1, 3, 7, 9).mul(20).to(dtype)
    wanted = f.max_pool2d(f.pad(x.float(), (2, 0, 1, 0), value=-1e9), (3, 3), (1, 2))
    result = _checked(NHWC.max_pool2d.default, _last(x), [3, 3], [1, 2], [1, 0, 2, 0])
    assert torch.equal(result, _last(wanted).to(dtype))


def test_max_pool_with_dilation() -> None:
    x = _normal(1, 3, 8, 9)
    wanted = f.max_pool2d(x, (3, 2), (2, 3), (1, 0), (2, 3))
    result = _checked(NHWC.max_pool2d.default, _last(x), [3, 2], [2, 3], [1, 1, 0, 0], [2, 3])
    assert torch.equal(result, _last(wanted))


def test_average_pool_does_not_count_padding() -> None:
    x = _normal(1, 3, 7, 9)
    wanted = f.avg_pool2d(x, (3, 3), (1, 2), (1, 1), count_include_pad=False)
    result = _checked(NHWC.avg_pool2d.default, _last(x), [3, 3], [1, 2], [1, 1, 1, 1])
    torch.testing.assert_close(result, _last(wanted))


def test_average_pool_of_integers_rounds_halves_away_from_zero() -> None:
    x = _integers(torch.int8, 1, 7, 9, 3)
    result = _checked(NHWC.avg_pool2d.default, x, [3, 3], [1, 2], [1, 1, 1, 1], -4, 9)
    exact = f.avg_pool2d(
        (x.double() + 4).movedim(-1, 1), (3, 3), (1, 2), (1, 1), count_include_pad=False
    ).movedim(1, -1)
    rounded = exact.sign() * (exact.abs() + 0.5 + 1e-9).floor()
    assert torch.equal(result, rounded.add(9).clamp(-128, 127).to(torch.int8))


@pytest.mark.parametrize(("size", "outputs"), [(4, 8), (5, 10), (3, 9)])
def test_resize_by_an_integer(size: int, outputs: int) -> None:
    x, factor = _normal(1, 2, size, size), outputs // size
    # half-pixel centers: the position of an output is (2 * o + 1 - factor) / (2 * factor)
    scale = [2 * factor, 2] * 2
    offset = [1 - factor] * 2
    border = [factor - 1] * 2
    result = _checked(NHWC.resize.default, _last(x), scale, offset, border, "bilinear")
    wanted = f.interpolate(x, scale_factor=factor, mode="bilinear")
    torch.testing.assert_close(result, _last(wanted), rtol=1e-5, atol=1e-6)
    quantized = x.mul(40).to(torch.int8)
    sums = _checked(NHWC.resize.default, _last(quantized), scale, offset, border, "bilinear")
    wanted = f.interpolate(quantized.double(), scale_factor=factor, mode="bilinear")
    assert sums.dtype == torch.int32
    torch.testing.assert_close(sums.double() / (2 * factor) ** 2, _last(wanted))


def test_resize_to_the_nearest() -> None:
    x = _integers(torch.int8, 1, 4, 5, 2)
    wanted = f.interpolate(x.movedim(-1, 1).float(), scale_factor=2).to(torch.int8).movedim(1, -1)
    # the position of an output is o / 2 - 1 / 4, rounded to the nearest
    result = _checked(NHWC.resize.default, x, [4, 2, 4, 2], [-1, -1], [1, 1], "nearest")
    assert torch.equal(result, wanted)
