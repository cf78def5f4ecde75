# SPDX-License-Identifier: Apache-2.0
"""Layers with quantized weights, in the reference executor, compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.backends.common.testing import floats
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.grid import run_case
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import quantized

ROWS: Final = floats(5, 128)
TOKENS: Final = torch.tensor([[3, 6, 0, 3]])
MATMUL: Final = "QuantizedMatmul"
GATHER: Final = "Take Take Take Dequantize"


class Layer(nn.Module):
    """A function of the input and of a quantized weight.

    Args:
        function: of the input, the weight and the bias.
        shape: of the weight.
        block: elements with one scale.
        low: the least value.
        high: the largest value.
        zeros: whether it has zero points.
        dtype: of its values.
        factor: of its scales.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(
        self,
        function: Callable[..., Tensor],
        shape: tuple[int, int] = (24, 128),
        block: tuple[int, int] = (1, 32),
        low: int = -8,
        high: int = 7,
        zeros: bool = False,
        dtype: torch.dtype = torch.int8,
        factor: float = 1.0,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(high)
        counts = [size // width for size, width in zip(shape, block, strict=True)]
        # its whole range, so that the number of bits does not depend on the seed
        values = torch.randint(low, high + 1, shape, generator=generator)
        values[0, :2] = torch.tensor([low, high])
        self.register_buffer("weight", values.to(dtype))
        self.register_buffer("scale", (torch.rand(counts, generator=generator) / 64 + 2.0**-9) * factor)
        found = torch.randint(low, high + 1, counts, generator=generator) if zeros else None
        self.register_buffer("zeros", found)
        self.register_buffer("bias", floats(shape[0], seed=1))
        self.block, self.function = list(block), function

    def forward(self, x: Tensor) -> Tensor:
        weight = AFFINE.dequantize_affine(self.weight, self.block, self.scale, self.zeros, self.weight.dtype)
        dtype = x.dtype if x.is_floating_point() else torch.float32
        return self.function(x, weight.to(dtype), self.bias.to(dtype))


def _linear(x: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    return functional.linear(x, weight)


def _biased(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(x, weight, bias)


def _product(x: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    return x @ weight


def _transposed(x: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    return x @ weight.T


def _embedding(tokens: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    return functional.embedding(tokens, weight)


def _added(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias, x, weight.T)


def _both(x: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    return functional.linear(x, weight) + weight.sum()


def _range(bits: int) -> dict[str, Any]:
    return {"low": -(1 << (bits - 1)), "high": (1 << (bits - 1)) - 1}


CASES: Final[dict[str, tuple[Layer, Tensor, str]]] = {
    **{
        f"{bits} bits in groups of {group}": (
            Layer(_linear, block=(1, group), zeros=group == 64, **_range(bits)),
            ROWS,
            MATMUL,
        )
        for bits in (2, 3, 4, 5, 6, 8)
        for group in (32, 64, 128)
    },
    "a bias": (Layer(_biased), ROWS, f"{MATMUL} Add"),
    "batches": (Layer(_linear), ROWS.view(1, 5, 1, 128), MATMUL),
    "a scale per channel": (Layer(_linear, (24, 384), (1, 384), **_range(8)), floats(3, 384), MATMUL),
    "a scale": (Layer(_linear, block=(24, 128), zeros=True), ROWS, MATMUL),
    "a scale for some rows": (Layer(_linear, block=(3, 64)), ROWS, MATMUL),
    "unsigned": (Layer(_linear, low=0, high=15, zeros=True, dtype=torch.uint8), ROWS, MATMUL),
    "wide integers": (Layer(_linear, low=500, high=700, zeros=True, dtype=torch.int16), ROWS, MATMUL),
    "groups along the result": (Layer(_product, (128, 64)), ROWS, MATMUL),
    "a transposed weight": (Layer(_transposed), ROWS, MATMUL),
    "an addmm": (Layer(_added), ROWS, f"{MATMUL} Add"),
    "other uses of the weight": (Layer(_both), ROWS, f"Dequantize {MATMUL} Sum Add"),
    "groups of 16": (Layer(_linear, block=(1, 16)), ROWS, ""),
    "more than 256 values": (Layer(_linear, low=-300, high=300, dtype=torch.int16), ROWS, ""),
    "rows": (Layer(_embedding, **_range(8)), TOKENS, GATHER),
    "rows with zero points": (Layer(_embedding, zeros=True), TOKENS, GATHER),
    "rows with a scale": (Layer(_embedding, block=(1, 128)), TOKENS, GATHER),
}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_layers(name: str, precision: str) -> None:
    layer, x, expected = CASES[name]
    atol = None if precision == "fp32" else 8e-3  # biases of zero points are rounded, too
    run_case(layer, (x,), expected if precision == "fp32" else "", precision, atol=atol)


def test_small_scales_stay_in_float32() -> None:
    """Of which float16 has fewer digits."""
    layer = Layer(_linear, factor=2.0**-11)
    compiled = run_case(layer, (ROWS * 64,), "AsType QuantizedMatmul AsType", "fp16")
    assert torch.float32.itemsize * layer.scale.numel() in _sizes(compiled)


@pytest.mark.parametrize("operator", ["dequantize_per_channel", "dequantize_per_channel_group"])
def test_operators_of_torch(operator: str) -> None:
    def function(x: Tensor, *_: Tensor) -> Tensor:
        rest = (
            (0, -8, 7, torch.int8)
            if operator == "dequantize_per_channel"
            else (-8, 7, torch.int8, 32, torch.float32)
        )
        scale = layer.scale[:, 0] if operator == "dequantize_per_channel" else layer.scale
        weight = getattr(quantized, operator)(layer.weight, scale, None, *rest)
        return functional.linear(x, weight)

    layer = Layer(function)
    layer.function = function
    run_case(layer, (ROWS,), MATMUL)


def test_integers_that_are_converted() -> None:
    """They have a scale of 1, and the product is scaled after it, as torchao computes int8 weights."""
    layer = Layer(_linear, **_range(8))

    def function(x: Tensor) -> Tensor:
        return functional.linear(x, layer.weight.to(x.dtype)) * layer.scale[:, 0]

    run_case(function, (ROWS,), f"{MATMUL} Multiply")


def test_bytes() -> None:
    """Values have their bits; scales of several groups are stored once, and biases are computed."""
    layer = Layer(_linear, (24, 384), (1, 384))
    assert _sizes(run_case(layer, (floats(2, 384),))) == [4, 24 * 4, 24 * 384 // 2]
    shifted = Layer(_linear, zeros=True)
    assert _sizes(run_case(shifted, (ROWS,))) == [24 * 4 * 4, 24 * 4 * 4, 24 * 128 // 2]


def test_an_embedding_and_logits_share_values() -> None:
    def function(tokens: Tensor, weight: Tensor, _: Tensor) -> Tensor:
        return functional.linear(functional.embedding(tokens, weight), weight)

    compiled = run_case(Layer(function), (TOKENS,), f"{GATHER} {MATMUL}")
    assert sum(_sizes(compiled)) == 24 * 128 // 2 + 24 * 4 * 4 + 4


def _dynamic(x: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    block = [1, x.shape[-1]]
    scale, zero = AFFINE.choose_qparams_affine(x, "ASYMMETRIC", block, torch.int8)
    q = AFFINE.quantize_affine(x, block, scale, zero, torch.int8)
    return functional.linear(AFFINE.dequantize_affine(q, block, scale, zero, torch.int8), weight)


def test_activations_that_are_quantized_at_run_time() -> None:
    """Their arithmetic is that of eager mode; the product is that of the values that they stand for."""
    compiled = run_case(Layer(_dynamic), (ROWS,))
    assert operations(compiled.blobs()[0]).count(MATMUL) == 1


def test_a_weight_that_is_computed() -> None:
    def function(x: Tensor, scale: Tensor) -> Tensor:
        weight: Tensor = AFFINE.dequantize_affine(layer.weight, [1, 32], scale, None, torch.int8)
        return functional.linear(x, weight)

    layer = Layer(_linear)
    compiled = run_case(function, (ROWS, layer.scale))
    assert compiled.left == []


def _sizes(compiled: Any) -> list[int]:
    """Returns the bytes of each constant of the only delegate, in ascending order."""
    (delegate,) = compiled.delegates
    names = {bytes(each.name).decode() for each in read_blob(memoryview(delegate.blob_bytes())).names}
    assert names == delegate.named_data.keys()
    return sorted(len(each.data) for each in delegate.named_data.values())
