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
    fake_quantized,
    from_blocks,
    to_blocks,
)

LIMITS = {"fp8e4m3": 464.0, "fp8e5m2": 61440.0, "fp6e2m3": 7.75, "fp6e3m2": 30.0, "fp4e2m1": 7.0}
SMALLEST = {"fp8e4m3": 2.0**-9, "fp8e5m2": 2.0**-16, "fp6e2m3": 0.125, "fp6e3m2": 0.0625, "fp4e2m1": 0.5}


def _block(*values: float) -> torch.Tensor:
    return torch.tensor([*values, *[0.0] * (32 - len(values))])


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_a_format_are_themselves(name: str) -> None:
    format = FORMATS[name]
    codes = torch.arange(1 << format.bits, dtype=torch.uint8)
    if format.dtype != torch.uint8:
        codes = codes.view(format.dtype)
        codes = codes[torch.isfinite(codes.float())]
        codes = torch.cat([codes, codes[: -len(codes) % 32]])
    codes = codes.repeat(2) if len(codes) < 32 else codes
    values = decode(codes, torch.full([len(codes) // 32], 127, dtype=torch.uint8), name)
    assert values.abs().max() == format.largest
    assert values[values > 0].min() == SMALLEST[name]
    largest = torch.full_like(values, format.largest)
    # Each block needs the largest value for the scale of 1.
    pairs = torch.stack([values, largest], 1).flatten()
    assert torch.equal(fake_quantized(pairs, name), pairs)


@pytest.mark.parametrize("name", FORMATS)
def test_the_scale_is_the_least_without_overflow(name: str) -> None:
    limit, largest = LIMITS[name], FORMATS[name].largest
    assert FORMATS[name].limit == limit
    below, above = math.nextafter(limit, 0.0), math.nextafter(limit, math.inf)
    for factor in (1.0, 0.25, 1024.0):
        for value, expected in ((largest, 0), (below - 1e-4 * limit, 0), (above * (1 + 1e-6), 1)):
            _, scales = encode(_block(value * factor), name)
            assert scales.tolist() == [127 + expected + int(math.log2(factor))]
    tie = encode(_block(limit), name)[1].item()
    assert tie == (127 if name == "fp8e4m3" else 128)  # Ties to even.


@pytest.mark.parametrize(
    ("name", "value", "expected"),
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
def test_ties_are_rounded_to_even(name: str, value: float, expected: float) -> None:
    assert fake_quantized(_block(FORMATS[name].largest, value), name)[1] == expected


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_of_zeros_and_of_others(name: str) -> None:
    assert fake_quantized(_block(), name).tolist() == [0.0] * 32
    for value in (math.inf, math.nan):
        assert fake_quantized(_block(1.0, value), name).isnan().all()
        assert encode(_block(value), name)[1].item() == 255
    assert fake_quantized(_block(1e-40), name)[1:].tolist() == [0.0] * 31


def test_four_bit_elements_are_packed_in_pairs() -> None:
    elements, scales = to_blocks(_block(6.0, -0.5, 1.0), "fp4e2m1")
    assert elements.shape == (16,) and elements[:2].tolist() == [7 | 9 << 4, 2]
    assert torch.equal(from_blocks(elements, scales, "fp4e2m1"), _block(6.0, -0.5, 1.0))


def test_operators_are_products_of_rounded_operands() -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(3, 64), torch.randn(1, 5, 64), torch.randn(5)
    elements, scales = to_blocks(weight, "fp6e3m2")
    wanted = torch.nn.functional.linear(
        fake_quantized(x, "fp6e3m2"), fake_quantized(weight, "fp6e3m2")[0], bias
    )
    assert torch.equal(LINEAR(x, elements, scales, bias, "fp6e3m2"), wanted)
    images, kernels = torch.randn(1, 5, 6, 32), torch.randn(4, 3, 2, 32)
    elements, scales = to_blocks(kernels, "fp8e5m2")
    found = CONV2D(images, elements, scales, None, [2, 1], [1, 0], [1, 2], "fp8e5m2")
    x, y = (fake_quantized(each, "fp8e5m2").permute(0, 3, 1, 2) for each in (images, kernels))
    sums = torch.nn.functional.conv2d(x, y, None, (2, 1), (1, 0), (1, 2))
    assert torch.equal(found, sums.permute(0, 2, 3, 1))
