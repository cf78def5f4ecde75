# SPDX-License-Identifier: Apache-2.0
"""Layers of block-scaled floats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.constants import from_six_bits, six_bits
from delegatec.backends.arm.dtypes import FORMATS
from delegatec.backends.arm.testing import compile_module, graph_of, run_case
from delegatec.edge.block_scaled import CONV2D, LINEAR, to_blocks

SPECIFICATION = "TOSA-1.1+FP+bf16+mxfp+mxfp_conv+fp8e4m3+fp8e5m2"


class _Layer(torch.nn.Module):
    def __init__(self, weight: torch.Tensor, format: str, has_bias: bool) -> None:
        super().__init__()
        self.format = format
        elements, scales = to_blocks(weight, format)
        self.register_buffer("elements", elements)
        self.register_buffer("scales", scales)
        self.register_buffer(
            "bias", torch.randn(weight.shape[-2 if weight.dim() == 3 else 0]) if has_bias else None
        )


class Linear(_Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = LINEAR(x, self.elements, self.scales, self.bias, self.format)
        return product


class Conv2d(_Layer):
    sizes: tuple[list[int], ...] = ([2, 1], [1, 1], [1, 2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = x.permute(0, 2, 3, 1)
        found: torch.Tensor = CONV2D(images, self.elements, self.scales, self.bias, *self.sizes, self.format)
        return found.permute(0, 3, 1, 2)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def _linear(format: str, has_bias: bool = True) -> Linear:
    return Linear(torch.randn(1, 5, 96), format, has_bias)


def _conv2d(format: str, has_bias: bool = True) -> Conv2d:
    return Conv2d(torch.randn(5, 3, 2, 64), format, has_bias)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(96,), (7, 96), (2, 3, 96)])
def test_linear(format: str, shape: tuple[int, ...]) -> None:
    compiled = run_case(_linear(format), (torch.randn(shape),), specification=SPECIFICATION)
    (product,) = (o for o in graph_of(compiled).operations if o.name == "MATMUL_T_BLOCK_SCALED")
    assert [each.dtype for each in product.inputs] == [FORMATS[format], DType.FP8UE8M0] * 2
    assert product.inputs[2].shape == (1, 5, 96) and product.inputs[3].shape == (1, 5, 3)


@pytest.mark.parametrize("format", FORMATS)
def test_conv2d(format: str) -> None:
    run_case(_conv2d(format), (torch.randn(2, 64, 9, 8),), specification=SPECIFICATION)


def test_windows_end_at_the_end() -> None:
    expected = "TRANSPOSE SLICE CAST_TO_BLOCK_SCALED CONV2D_BLOCK_SCALED TRANSPOSE"
    layer = _conv2d("fp4e2m1", has_bias=False)
    layer.sizes = ([2, 2], [0, 0], [1, 1])
    run_case(layer, (torch.randn(1, 64, 10, 8),), expected, specification=SPECIFICATION)


def test_half_precision_is_rounded_without_a_conversion() -> None:
    layer = _linear("fp6e2m3", has_bias=False)
    expected = "CAST_TO_BLOCK_SCALED MATMUL_T_BLOCK_SCALED"
    run_case(layer, (torch.randn(1, 2, 96).bfloat16(),), expected, specification=SPECIFICATION)


def test_operands_of_two_layers_are_rounded_once() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (_linear("fp4e2m1", has_bias=False) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = self.first.forward(x), self.second.forward(x)
            return first + second

    expected = "CAST_TO_BLOCK_SCALED MATMUL_T_BLOCK_SCALED MATMUL_T_BLOCK_SCALED ADD"
    run_case(Both(), (torch.randn(1, 2, 96),), expected, specification=SPECIFICATION)


@pytest.mark.parametrize(
    ("layer", "shape", "specification", "message"),
    [
        (
            _linear,
            (2, 96),
            "TOSA-1.0+FP",
            "CAST_TO_BLOCK_SCALED of FP32 and FP4E2M1 needs the extension mxfp",
        ),
        (_conv2d, (1, 64, 9, 8), "TOSA-1.1+FP+mxfp", "needs the extension mxfp_conv"),
    ],
)
def test_it_needs_the_extensions(
    layer: Callable[[str], _Layer], shape: tuple[int, ...], specification: str, message: str
) -> None:
    compiled = compile_module(layer("fp4e2m1"), (torch.randn(shape),), specification=specification)
    assert not compiled.delegates
    assert any(message in each[2] for each in compiled.left), compiled.left


def test_constants_of_float8_need_their_extension() -> None:
    compiled = compile_module(_linear("fp8e4m3"), (torch.randn(2, 96),), specification="TOSA-1.1+FP+mxfp")
    ((_, _, message),) = compiled.left
    assert message.startswith("CONST of FP8E4M3 needs the extension fp8e4m3")


def test_a_weight_must_be_constant() -> None:
    class Computed(torch.nn.Module):
        def forward(self, x: torch.Tensor, elements: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
            product: torch.Tensor = LINEAR(x, elements, scales, None, "fp6e2m3")
            return product

    layer = _linear("fp6e2m3")
    args = (torch.randn(2, 96), layer.elements, layer.scales)
    compiled = compile_module(Computed(), args, specification=SPECIFICATION)
    ((_, _, message),) = compiled.left
    assert message == "elements and scales: the elements and scales of a weight are not constant"


def test_four_codes_of_six_bits_are_three_bytes() -> None:
    codes = torch.tensor([1, 33, 5, 1, 63, 0, 32, 2], dtype=torch.uint8)
    packed = six_bits(codes)
    assert packed[0].tolist() == [65, 88, 4]
    assert torch.equal(from_six_bits(bytes(packed.flatten().tolist())), codes)
