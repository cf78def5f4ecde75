# SPDX-License-Identifier: Apache-2.0
"""Convolutions along one dimension as linear layers, or as convolutions of images of one row.

Kernels of linear layers quantize each position of a line with its own scale; those of convolutions, an image.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind

aten = torch.ops.aten

IMAGES: Final[dict[Any, Any]] = {
    aten.conv1d.default: aten.conv2d.default,
    aten.conv1d.padding: aten.conv2d.padding,
    aten.conv_transpose1d.default: aten.conv_transpose2d.input,
}
"""Convolution of lines -> that of images."""
ROW: Final = -2
"""The dimension of an image that a line lacks."""
_NO_PADDING: Final = ("valid", "same")
_DEPTHWISE: Final = frozenset(
    {aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding}
)


def is_pointwise(node: Node, weight: Tensor) -> bool:
    """Whether a convolution of lines, [N, inputs, L] -> [N, outputs, L], is a linear layer of rows."""
    if node.target not in (aten.conv1d.default, aten.conv1d.padding) or weight.shape[-1] != 1:
        return False
    bound = bind(node)
    is_dense = _only(bound["stride"]) == 1 and (
        bound["padding"] in _NO_PADDING or not _only(bound["padding"])
    )
    return bool(is_dense and bound["groups"] == 1)


def is_depthwise(node: Node, weight: Tensor) -> bool:
    """Whether a convolution reads one channel for each result.

    No kernel computes it with images that are quantized at run time. In XNNPACK it would be one of groups,
    which takes ten times as long as in float.
    """
    return node.target in _DEPTHWISE and weight.shape[1] == 1 and bind(node)["groups"] > 1


def image_arguments(node: Node) -> tuple[Any, ...]:
    """Returns the arguments of the convolution of images after filter and bias."""
    names = [each.name for each in node.target._schema.arguments][3:]  # type: ignore[union-attr]
    bound = bind(node)
    return tuple(_of_image(name, bound[name]) for name in names)


def _of_image(name: str, value: Any) -> Any:
    if name == "groups" or isinstance(value, str):
        return value
    return [0 if name.endswith("padding") else 1, _only(value)]


def _only(value: Any) -> Any:
    """Returns the setting of the only dimension."""
    return value[0] if isinstance(value, (list, tuple)) else value
