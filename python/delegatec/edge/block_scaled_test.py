# SPDX-License-Identifier: Apache-2.0
"""Block-scaled elements."""

from __future__ import annotations

import math

import pytest
import torch

from delegatec.edge.block_scaled import (
    CONV2D,
    FORMATS,
    LINEAR,
    decode,
    encode,
    from_blocks,
    rounded,
    to_blocks,
)

LIMITS = {"fp8e4m3": 464.0, "fp8e5m2": 61440.0, "fp6e2m3": 7.75, "fp6e3m2": 30.0, "fp4e2m1": 7.0}
SMALLEST = {"fp8e4m3": 2.0**-9, "fp8e5m2": 2.0**-16, "fp6e2m3": 0.125, "fp6e3m2": 0.0625, "fp4e2m1": 0.5}


def _block(*numbers: float) -> torch.Tensor:
    return torch.tensor([*numbers, *[0.0] * (32 - len(numbers))])


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_of_a_format_are_themselves(name: str) -> None:
    format = FORMATS[name]
    codes = torch.arange(1 << format.bits, dtype=torch.uint8)
    if format.dtype != torch.uint8:
        codes = codes.view(format.dtype)
        codes = codes[torch.isfinite(codes.float())]
        codes = torch.cat([codes, codes[: -len(codes) % 32]])
    codes = codes.repeat(2) if len(codes) < 32 else codes
    numbers = decode(codes, torch.full([len(codes) // 32], 127, dtype=torch.uint8), name)
    assert numbers.abs().max() == format.largest
    assert numbers[numbers > 0].min() == SMALLEST[name]
    largest = torch.full_like(numbers, format.largest)
    # Each block needs the largest value for the scale of 1.
    pairs = torch.stack([numbers, largest], 1).flatten()
    assert torch.equal(rounded(pairs, name), pairs)


@pytest.mark.parametrize("name", FORMATS)
def test_the_scale_is_the_least_without_overflow(name: str) -> None:
    limit, largest = LIMITS[name], FORMATS[name].largest
    assert FORMATS[name].limit == limit
    below, above = math.nextafter(limit, 0.0), math.nextafter(limit, math.inf)
    for factor in (1.0, 0.25, 1024.0):
        for number, expected in ((largest, 0), (below - 1e-4 * limit, 0), (above * (1 + 1e-6), 1)):
            _, scales = encode(_block(number * factor), name)
            assert scales.tolist() == [127 + expected + int(math.log2(factor))]
    tie = encode(_block(limit), name)[1].item()
    assert tie == (127 if name == "fp8e4m3" else 128)  # Ties to even.


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("fp4e2m1", 0.25, 0.0),
        ("fp4e2m1", 0.26, 0.5),
        ("fp4e2m1", 0.75, 1.0),
        ("fp4e2m1", -2.5, -2.0),
        ("fp4e2m1", 5.0, 4.0),
        ("fp6e2m3", 0.0625, 0.0),
        ("fp6e3m2", 26.0, 24.0),
        ("fp8e4m3", 17.0, 16.0),
    ],
)
def test_ties_are_rounded_to_even(name: str, number: float, expected: float) -> None:
    assert rounded(_block(FORMATS[name].largest, number), name)[1] == expected


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_of_zeros_and_of_others(name: str) -> None:
    assert rounded(_block(), name).tolist() == [0.0] * 32
    for number in (math.inf, math.nan):
        assert rounded(_block(1.0, number), name).isnan().all()
        assert encode(_block(number), name)[1].item() == 255
    assert rounded(_block(1e-40), name)[1:].tolist() == [0.0] * 31


def test_levels_of_four_bits_are_pairs() -> None:
    levels, scales = to_blocks(_block(6.0, -0.5, 1.0), "fp4e2m1")
    assert levels.shape == (16,) and levels[:2].tolist() == [7 | 9 << 4, 2]
    assert torch.equal(from_blocks(levels, scales, "fp4e2m1"), _block(6.0, -0.5, 1.0))


def test_operators_are_products_of_rounded_operands() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 64), torch.randn(1, 5, 64), torch.randn(5)
    levels, scales = to_blocks(weight, "fp6e3m2")
    wanted = torch.nn.functional.linear(rounded(x, "fp6e3m2"), rounded(weight, "fp6e3m2")[0], bias)
    assert torch.equal(LINEAR(x, levels, scales, bias, "fp6e3m2"), wanted)
    images, kernels = torch.randn(1, 5, 6, 32), torch.randn(4, 3, 2, 32)
    levels, scales = to_blocks(kernels, "fp8e5m2")
    found = CONV2D(images, levels, scales, None, [2, 1], [1, 0], [1, 2], "fp8e5m2")
    x, y = (rounded(each, "fp8e5m2").permute(0, 3, 1, 2) for each in (images, kernels))
    sums = torch.nn.functional.conv2d(x, y, None, (2, 1), (1, 0), (1, 2))
    assert torch.equal(found, sums.permute(0, 2, 3, 1))
