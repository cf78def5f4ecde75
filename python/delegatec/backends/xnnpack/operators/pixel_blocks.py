# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions whose results do not overlap: a linear layer makes a block of each pixel.

XNNPACK's own operation, a convolution of one pixel for each element of a block, takes twice as long: in a
U-Net, 1.1 ms for 64 x 64 pixels of 64 channels, and blocks of 2 x 2 pixels of 32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.fx import Node

from delegatec.backends.xnnpack.building.layers import (
    FilterForm,
    Operands,
    is_dynamically_quantized,
    quantized_operands,
)
from delegatec.backends.xnnpack.building.operations import fully_connected, reshaped, transposed
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.symbols import is_dynamic


def has_blocks(node: Node) -> bool:
    """Whether a transposed convolution makes a block of each pixel, of images of static sizes.

    The runtime quantizes images at run time with one scale, and rows of a linear layer with one each.
    """
    bound = bind(node)
    is_static = not is_dynamically_quantized(bound["x"]) and not is_dynamic(shape_of(bound["x"]))
    return is_static and _are_apart(bound)


def _are_apart(bound: Mapping[str, Any]) -> bool:
    kernel = shape_of(bound["weight"])[2:]
    is_whole = bound["groups"] == 1 and set(bound["dilation"]) == {1} and not any(bound["out_padding"])
    return is_whole and math.prod(kernel) > 1 and list(kernel) == list(bound["stride"])


def blocks(b: QuantizedBuilder, node: Node) -> None:
    """Emits a transposed convolution that `has_blocks`."""
    bound = bind(node)
    inputs, outputs, height, width = shape_of(bound["weight"])
    count = height * width

    def last(weight: Tensor) -> Tensor:
        """[in, out, height, width] as [height, width, out, in]."""
        return weight.permute(2, 3, 1, 0)

    form = FilterForm("blocks", last, (count * outputs, inputs), repeats=count)
    operands = quantized_operands(b, node, bound["x"], form)
    if operands is None:
        bias = NO_VALUE
        if bound["bias"] is not None:
            value = b.constant_value(bound["bias"])
            assert value is not None
            bias = b.constant(value.repeat(count), dtype_of(node), bound["bias"], ("repeated", count))
        filter = b.arranged(bound["weight"], form.name, form.arrange, form.shape)
        operands = Operands(b.of(bound["x"]), filter, bias)
    images, rows, columns, _ = shape_of(bound["x"])
    pixels = fully_connected(b, *operands)
    if height > 1:
        pixels = reshaped(b, pixels, [images * rows, columns, height, width * outputs])
        pixels = transposed(b, pixels, [0, 2, 1, 3])
    b.alias(node, reshaped(b, pixels, [images, rows * height, columns * width, outputs]))
