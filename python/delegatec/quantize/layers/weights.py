# SPDX-License-Identifier: Apache-2.0
"""How the weight of a layer is stored if activations are not static: dtype, scales and quantized values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine

from delegatec.quantize.layers.forms import Form, Layer
from delegatec.quantize.settings import Settings

RANGES: Final = {"int8": (-128, 127), "int4": (-8, 7)}
"""dtype -> its least and largest quantized value, as in torchao's `quantize_`."""


@dataclass(frozen=True)
class Scheme:
    """How a weight is stored.

    Attributes:
        dtype: "int8", "int4" or "float16".
        block: sizes of the part that has one scale, one per dimension.
        axis: the dimension of output channels; None if the weight has one scale.
    """

    dtype: str
    block: tuple[int, ...]
    axis: int | None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest quantized value."""
        return RANGES[self.dtype]


def scheme_of(layer: Layer, settings: Settings, value: Tensor) -> Scheme:
    """Returns how a layer's weight is stored.

    Kernels take int4, and groups, only of linear layers: other weights are int8.

    Args:
        layer: the layer.
        settings: how to quantize.
        value: its weight, [outputs, inputs] for a linear layer.
    """
    form, block = layer.operands.form, list(value.shape)
    dtype = settings.weight if form is Form.LINEAR or settings.weight != "int4" else "int8"
    if settings.weight_scales == "tensor":
        return Scheme(dtype, tuple(block), None)
    axis = layer.operands.axis if form is Form.CONVOLUTION else 0
    block[axis] = 1
    if form is Form.LINEAR and settings.group_size:
        block[1] = settings.group_size
    return Scheme(dtype, tuple(block), axis)


def quantize_weight(value: Tensor, scheme: Scheme) -> tuple[Tensor, Tensor]:
    """Returns a weight's quantized values, int8, and its scales, one per block in as many dimensions.

    Args:
        value: the weight, float32.
        scheme: how it is stored, in integers.
    """
    scale, zeros = choose_qparams_affine(
        value, MappingType.SYMMETRIC, scheme.block, torch.int8, *scheme.limits, zero_point_dtype=torch.int8
    )
    quantized = quantize_affine(value, scheme.block, scale, zeros, torch.int8, *scheme.limits)
    counts = [size // width for size, width in zip(value.shape, scheme.block, strict=True)]
    return quantized, scale.reshape(counts)
