# SPDX-License-Identifier: Apache-2.0
"""Layers with quantized weights, in the reference executor, compared with eager mode."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from delegatec.backends.vulkan.operators.quantized.testing import INT4, INT8, Layer, quantized_values, scales
from delegatec.backends.vulkan.testing import graph_of, run_case
from delegatec.backends.vulkan.testing.grid import floats
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import quantized

ROWS: Final = floats(5, 64)
BIAS: Final = floats(12, seed=1)
Q8, Q4 = "linear_q8csw", "linear_q4gsw"


def _channels(layer: Any) -> Tensor:
    weight: Tensor = quantized.dequantize_per_channel(layer.weight, layer.scale, layer.zeros, 0, *INT8)
    return weight


def _groups(layer: Any, group: int = 16) -> Tensor:
    weight: Tensor = quantized.dequantize_per_channel_group(
        layer.weight, layer.scale, layer.zeros, *INT4, group, torch.float32
    )
    return weight


def _blocks(layer: Any) -> Tensor:
    weight: Tensor = AFFINE.dequantize_affine(layer.weight, [1, 16], layer.scale, layer.zeros, torch.int8)
    return weight


def _per_channel(weight: Tensor, zeros: Tensor | None = None, bias: Tensor | None = None) -> Layer:
    return Layer(
        lambda layer, x: functional.linear(x, _channels(layer), layer.bias),
        weight=weight,
        scale=scales(weight.shape[0]),
        zeros=zeros,
        bias=bias,
    )


def _per_group(weight: Tensor, dequantized: Any = _groups, zeros: Tensor | None = None) -> Layer:
    return Layer(
        lambda layer, x: functional.linear(x, dequantized(layer)),
        weight=weight,
        scale=scales(weight.shape[0], weight.shape[1] // 16),
        zeros=zeros,
    )


EIGHT, FOUR = quantized_values(12, 64), quantized_values(12, 64, low=-8, high=7)
ZEROS: Final = torch.arange(12)
GROUP_ZEROS: Final = torch.arange(48).reshape(12, 4) % 5

CASES: Final[dict[str, tuple[Any, Tensor, str]]] = {
    "8 bits per channel": (_per_channel(EIGHT, bias=BIAS), ROWS, Q8),
    "one row": (_per_channel(EIGHT), ROWS[:1], Q8),
    "a vector": (_per_channel(EIGHT), ROWS[0], f"view_copy {Q8} view_copy"),
    "batches": (_per_channel(EIGHT), ROWS.view(1, 5, 1, 64), f"view_copy {Q8} view_copy"),
    "padded": (
        _per_channel(quantized_values(11, 62)),
        floats(5, 62),
        f"constant_pad_nd {Q8} slice_copy.Tensor",
    ),
    "8 bits with zero points": (_per_channel(EIGHT, ZEROS), ROWS, ""),
    "4 bits per channel": (_per_channel(FOUR, bias=BIAS), ROWS, Q4),
    "4 bits in groups": (_per_group(FOUR), ROWS, Q4),
    "one row of 4 bits": (_per_group(FOUR), ROWS[:1], Q4),
    "4 bits of a few rows": (_per_group(FOUR[:6]), ROWS, f"{Q4} slice_copy.Tensor"),
    "4 bits with zero points": (_per_group(FOUR, zeros=GROUP_ZEROS), ROWS, ""),
    "4 bits in blocks": (_per_group(FOUR, _blocks), ROWS, Q4),
    "8 bits in groups": (_per_group(EIGHT), ROWS, ""),
    "8 bits in blocks with zero points": (_per_group(EIGHT, _blocks, GROUP_ZEROS), ROWS, ""),
    "small groups": (
        Layer(
            lambda layer, x: functional.linear(x, _groups(layer, 2)),
            weight=FOUR,
            scale=scales(12, 32),
            zeros=None,
        ),
        ROWS,
        "",
    ),
    "without scales": (
        Layer(lambda layer, x: x @ layer.weight.to(torch.float32), weight=quantized_values(64, 12)),
        ROWS,
        Q8,
    ),
    "a product in parts": (
        Layer(
            lambda layer, x: x[:, 32:] @ layer.weight.float()[32:],
            weight=quantized_values(64, 12),
        ),
        ROWS,
        "",
    ),
    "channels": (
        Layer(
            lambda layer, x: functional.conv2d(x.view(1, 64, 5, 1), _channels(layer), layer.bias),
            weight=quantized_values(12, 64, 1, 1),
            scale=scales(12),
            zeros=None,
            bias=BIAS,
        ),
        ROWS,
        "",
    ),
    "a transposed weight": (
        Layer(lambda layer, x: x @ _channels(layer).T, weight=EIGHT, scale=scales(12), zeros=None),
        ROWS,
        Q8,
    ),
    "a scale per row of the product": (
        Layer(
            lambda layer, x: x @ _channels(layer),
            weight=quantized_values(64, 12),
            scale=scales(64),
            zeros=None,
        ),
        ROWS,
        "",
    ),
    "a bias": (
        Layer(
            lambda layer, x: torch.addmm(layer.bias, x, layer.weight.float()),
            weight=quantized_values(64, 12),
            bias=BIAS,
        ),
        ROWS,
        Q8,
    ),
}


@pytest.mark.parametrize("options", [{}, {"storage": "buffer"}, {"precision": "fp16"}], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_products(name: str, options: dict[str, str]) -> None:
    layer, x, expected = CASES[name]
    run_case(layer, (x,), "" if options.get("precision") else expected, **options)


TOKENS: Final = torch.tensor([[3, 6, 0, 3]])
EMBEDDINGS: Final[dict[str, tuple[Any, str]]] = {
    "4 bits in groups": (_groups, "view_copy embedding_q4gsw view_copy"),
    "4 bits per row": (_channels, "view_copy embedding_q4gsw view_copy"),
    "blocks": (_blocks, ""),
}


@pytest.mark.parametrize("options", [{}, {"precision": "fp16"}], ids=str)
@pytest.mark.parametrize("name", EMBEDDINGS)
@pytest.mark.parametrize("bits", [4, 8])
def test_embeddings(name: str, bits: int, options: dict[str, str]) -> None:
    table, expected = EMBEDDINGS[name]
    weight = quantized_values(7, 64, low=-(2 ** (bits - 1)), high=2 ** (bits - 1) - 1)
    scale = scales(7) if name == "4 bits per row" else scales(7, 4)
    layer = Layer(
        lambda layer, tokens: functional.embedding(tokens, table(layer)),
        weight=weight,
        scale=scale,
        zeros=None,
    )
    compiled = run_case(layer, (TOKENS,), expected if bits == 4 and not options else "", **options)
    assert _bytes(compiled) < weight.numel() * bits // 8 + 512


def test_more_indices_than_rows() -> None:
    layer = Layer(
        lambda layer, tokens: functional.embedding(tokens, _channels(layer)),
        weight=quantized_values(3, 8),
        scale=scales(3),
        zeros=None,
    )
    run_case(layer, (torch.tensor([0, 2, 1, 1, 2, 0]),))


def test_constants_have_as_many_bits_as_quantized_values() -> None:
    compiled = run_case(_per_group(quantized_values(64, 64, low=-8, high=7)), (ROWS,))
    (weight,) = (each for each in graph_of(compiled).constants if each.length == 64 * 64 // 2)
    assert weight.offset != 0


def _bytes(compiled: Any) -> int:
    return sum(int(each.length) for each in graph_of(compiled).constants)
