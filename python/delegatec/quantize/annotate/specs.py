# SPDX-License-Identifier: Apache-2.0
"""Specifications of torchao for activations, weights and biases."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node
from torchao.quantization.pt2e import (
    MinMaxObserver,
    PerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec, QuantizationSpec

from delegatec.quantize.annotate.observers import MaskedHistogramObserver, MaskedMinMaxObserver
from delegatec.quantize.settings import Settings

_INT32: Final = torch.iinfo(torch.int32)
# The least scale of an activation: products of three of these are normal float32 values.
_ACTIVATION_EPS: Final = 2.0**-24
_WEIGHT_EPS: Final = 2.0**-24
_LARGEST: Final = {"int8": 127, "int4": 7}


def activation_spec(settings: Settings, dtype: str) -> QuantizationSpec:
    """Returns the specification of an activation.

    Args:
        settings: ranges and observer.
        dtype: "int8" or "int16".
    """
    symmetric = dtype == "int16" or settings.ranges == "symmetric"
    # The histogram's search is for ranges of few quantized values.
    histogram = dtype == "int8" and settings.observer == "histogram"
    most = 2 ** (15 if dtype == "int16" else 7) - 1
    return QuantizationSpec(
        dtype=torch.int16 if dtype == "int16" else torch.int8,
        observer_or_fake_quant_ctr=(MaskedHistogramObserver if histogram else MaskedMinMaxObserver).with_args(
            eps=_ACTIVATION_EPS if dtype == "int8" else _ACTIVATION_EPS / 2**8
        ),
        quant_min=-most if symmetric else -most - 1,
        quant_max=most,
        qscheme=torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
    )


def weight_spec(settings: Settings, axis: int | None) -> QuantizationSpec:
    """Returns the specification of a layer's weight: symmetric, with the least quantized value excluded.

    Args:
        settings: dtype and scales.
        axis: the dimension of output channels; None for one scale in any case.
    """
    per_channel = axis is not None and settings.weight_scales == "channel"
    observer = PerChannelMinMaxObserver if per_channel else MinMaxObserver
    most = _LARGEST[settings.weight]
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=observer.with_args(eps=_WEIGHT_EPS),
        quant_min=-most,
        quant_max=most,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=axis if per_channel else None,
    )


def bias_spec(activation: Node, weight: Node, layer: Node, per_channel: bool) -> DerivedQuantizationSpec:
    """Returns the specification of a layer's int32 bias: the product of the scales of its operands."""
    return DerivedQuantizationSpec(
        derived_from=[(activation, layer), (weight, layer)],
        derive_qparams_fn=_product_of_scales,
        dtype=torch.int32,
        quant_min=_INT32.min,
        quant_max=_INT32.max,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=0 if per_channel else None,
    )


def _product_of_scales(observers: list[Any]) -> tuple[Tensor, Tensor]:
    activation, weight = (observer.calculate_qparams()[0] for observer in observers)
    scale = activation * weight
    return scale, torch.zeros_like(scale, dtype=torch.int64)
