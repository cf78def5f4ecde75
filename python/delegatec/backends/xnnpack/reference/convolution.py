# SPDX-License-Identifier: Apache-2.0
"""Convolutions. Images are [batch, height, width, channels].

Source: XNNPACK's subgraph/convolution-2d.c, depthwise-convolution-2d.c and deconvolution-2d.c.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, NodeT
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.xnnpack.flags import SAME_PADDING
from delegatec.backends.xnnpack.reference.layers import bias_of, centered, connect, scales_of, write_sums
from delegatec.backends.xnnpack.reference.run import Run, Semantics, check_rank
from delegatec.backends.xnnpack.reference.tensors import Tensor, reject

_TAKES_ROWS: Final = 1


def pads_of(
    operation: Any, image: torch.Tensor, kernel: tuple[int, int], stride: tuple[int, int]
) -> list[int]:
    """Returns the padding of an operation: left, right, top, bottom.

    Args:
        operation: its table.
        image: [batch, height, width, channels].
        kernel: height and width, with dilation.
        stride: of both.
    """
    if int(operation.flags) & SAME_PADDING:
        found = []
        for size, extent, step in zip(image.shape[1:3], kernel, stride, strict=True):
            total = max(0, (-(-size // step) - 1) * step + extent - size)
            found.append((total // 2, total - total // 2))
        return [*found[1], *found[0]]
    names = ("paddingLeft", "paddingRight", "paddingTop", "paddingBottom")
    return [int(getattr(operation, name)) for name in names]


class _Geometry:
    """The sizes of a convolution."""

    def __init__(self, operation: Any) -> None:
        self.kernel = (int(operation.kernelHeight), int(operation.kernelWidth))
        self.stride = (int(operation.strideHeight), int(operation.strideWidth))
        self.dilation = (int(operation.dilationHeight), int(operation.dilationWidth))
        self.groups = int(operation.groups)
        self.inputs = int(operation.groupInputChannels)
        self.outputs = int(operation.groupOutputChannels)
        self.extent = (
            (self.kernel[0] - 1) * self.dilation[0] + 1,
            (self.kernel[1] - 1) * self.dilation[1] + 1,
        )

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel is computed from one pixel."""
        return self.kernel == self.stride == (1, 1) and self.groups == 1


def _checked(run: Run, operation: Any, shape: list[int], channels: int, outputs: int) -> Tensor:
    """Returns the filter of a convolution, whose operands fit.

    Args:
        run: the run.
        operation: its table.
        shape: that its filter must have.
        channels: of its input.
        outputs: channels of its result.
    """
    source, filter = run.operand(int(operation.inputId)), run.operand(int(operation.filterId))
    check_rank(source, 4, "the input of a convolution")
    found = list(run.elements(filter.id).shape)
    if found != shape:
        reject(f"a filter has the shape {found} instead of {shape}: value {filter.id}")
    if run.elements(source.id).shape[3] != channels:
        reject(f"a convolution of {channels} channels reads {list(run.elements(source.id).shape)}")
    bias = bias_of(run, operation)
    if bias is not None and run.elements(bias.id).numel() != outputs:
        reject(f"bias {bias.id} has {run.elements(bias.id).numel()} elements instead of {outputs}")
    return filter


def padded_image(
    run: Run, image: torch.Tensor, pads: list[int], extent: tuple[int, ...], mode: str = "constant"
) -> torch.Tensor:
    """Returns an image [batch, channels, height, width] with padding.

    Args:
        run: the run.
        image: the image.
        pads: left, right, top, bottom.
        extent: of a kernel, which must fit into the padded image.
        mode: of `F.pad`.
    """
    height, width = image.shape[2] + pads[2] + pads[3], image.shape[3] + pads[0] + pads[1]
    run.check_size([*image.shape[:2], height, width], "an image with its padding")
    padded = F.pad(image, pads, mode)
    if any(size < least for size, least in zip(padded.shape[2:], extent, strict=True)):
        reject(f"an image of {list(padded.shape[2:])} with its padding is smaller than a kernel of {extent}")
    return padded


def _convolve(run: Run, operation: Any, node: NodeT) -> None:
    sizes = _Geometry(operation)
    shape = [sizes.groups * sizes.outputs, *sizes.kernel, sizes.inputs]
    filter = _checked(run, operation, shape, sizes.groups * sizes.inputs, shape[0])
    image = run.elements(int(operation.inputId))
    pads = pads_of(operation, image, sizes.extent, sizes.stride)
    if sizes.is_pointwise and not any(pads) and sizes.inputs + sizes.outputs > 2:
        _one_row_each(run, operation)
        connect(run, operation, node, filter, transposed=False)
        return

    def sums(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return _sums(run, x, weights.permute(0, 3, 1, 2), pads, sizes)

    write_sums(run, operation, node, centered(filter), scales_of(filter), sums)


def _sums(
    run: Run, x: torch.Tensor, weights: torch.Tensor, pads: list[int], sizes: _Geometry
) -> torch.Tensor:
    """Convolves images [batch, height, width, channels] with weights [outputs, inputs, height, width]."""
    padded = padded_image(run, x.permute(0, 3, 1, 2), pads, sizes.extent)
    stride, dilation, groups = sizes.stride, sizes.dilation, sizes.groups
    return F.conv2d(padded, weights, None, stride, 0, dilation, groups).permute(0, 2, 3, 1)


def _one_row_each(run: Run, operation: Any) -> None:
    """Rejects an input that does not have a scale per pixel."""
    source = run.operand(int(operation.inputId))
    if source.data_type == DataType.DYNAMIC_INT8 and source.row_dims != _TAKES_ROWS:
        reject(f"a 1 x 1 convolution needs rows of one dimension, value {source.id} has {source.row_dims}")


def _depthwise(run: Run, operation: Any, node: NodeT) -> None:
    sizes = _Geometry(operation)
    multiplier = sizes.outputs // sizes.inputs
    outputs = sizes.groups * multiplier
    filter = _checked(run, operation, [1, *sizes.kernel, outputs], sizes.groups, outputs)
    pads = pads_of(operation, run.elements(int(operation.inputId)), sizes.extent, sizes.stride)

    def sums(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return _sums(run, x, weights.permute(3, 0, 1, 2), pads, sizes)

    write_sums(run, operation, node, centered(filter), scales_of(filter), sums)


def _transposed(run: Run, operation: Any, node: NodeT) -> None:
    sizes = _Geometry(operation)
    shape = [sizes.groups * sizes.outputs, *sizes.kernel, sizes.inputs]
    filter = _checked(run, operation, shape, sizes.groups * sizes.inputs, shape[0])
    adjustment = (int(operation.adjustmentHeight), int(operation.adjustmentWidth))
    left, right, top, bottom = (
        int(getattr(operation, f"padding{side}")) for side in ("Left", "Right", "Top", "Bottom")
    )

    image = run.elements(int(operation.inputId))
    grown = [
        size * step + extent
        for size, step, extent in zip(image.shape[1:3], sizes.stride, sizes.extent, strict=True)
    ]
    run.check_size([image.shape[0], *grown, shape[0]], "the result of a transposed convolution")

    def sums(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        # torch has [in, out / groups, height, width]
        groups = weights.reshape(sizes.groups, sizes.outputs, *weights.shape[1:])
        groups = groups.permute(0, 4, 1, 2, 3).flatten(0, 1)
        found = F.conv_transpose2d(
            x.permute(0, 3, 1, 2), groups, stride=sizes.stride, dilation=sizes.dilation, groups=sizes.groups
        )
        found = F.pad(found, (0, adjustment[1], 0, adjustment[0]))
        height, width = found.shape[2] - top - bottom, found.shape[3] - left - right
        if height < 1 or width < 1:
            reject("the padding of a transposed convolution removes its whole result")
        return found[:, :, top : top + height, left : left + width].permute(0, 2, 3, 1)

    write_sums(run, operation, node, centered(filter), scales_of(filter), sums)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Convolution": _convolve,
    "DepthwiseConvolution": _depthwise,
    "TransposedConvolution": _transposed,
}
