# SPDX-License-Identifier: Apache-2.0
"""Weights with scales of groups of inputs, or with zero points, as weights with a scale per channel.

The runtime multiplies numbers by levels with one scale per output channel, and without zero points. So a
layer becomes the sum of one such layer per group, over the inputs of the group. Zero points subtract the sum
of a group's inputs, times scale and zero point: one more layer of all groups' sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import are_steps
from delegatec.backends.xnnpack.quantized.weights import Weight, is_int4, weight_of
from delegatec.edge.analysis.quantized import Constant, quantized_constant
from delegatec.edge.arguments import bind

_LEAST_SHIFTED: Final = -8
_UNSIGNED_SHIFT: Final = 128
_LEVELS_OF_INT4: Final = 16
_BYTES_OF_GROUP: Final = 970
"""What the operations, values and keys of a group take in a program, measured."""
_FLOAT_BYTES: Final = 4

aten = torch.ops.aten


@dataclass(frozen=True)
class Grouped:
    """A quantized weight of a linear layer: (levels - zeros) * steps.

    Attributes:
        call: the call that dequantizes it.
        source: the constant of its levels.
        levels: int8, [outputs, inputs].
        steps: float32, [outputs, groups].
        zeros: float64, of the same shape; None if all are zero.
        is_int4: whether four bits hold the levels.
    """

    call: Node
    source: Node
    levels: Tensor
    steps: Tensor
    zeros: Tensor | None
    is_int4: bool

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self.steps.shape[1]

    @property
    def width(self) -> int:
        """The inputs per group."""
        return self.levels.shape[1] // self.groups

    def parts(self) -> Iterator[Weight]:
        """Yields the weight of each group without its zero points, views of the levels."""
        for index in range(self.groups):
            levels = self.levels[:, index * self.width : (index + 1) * self.width]
            yield Weight(self.call, self.source, levels, self.steps[:, index].contiguous(), 0)

    def corrections(self) -> Tensor | None:
        """Returns the factors of the sums of groups' inputs, float32 [outputs, groups]; None if all are 0."""
        return None if self.zeros is None else (-self.zeros * self.steps).to(torch.float32)


def grouped_weight(node: Node, constant: Constant) -> Grouped | None:
    """Returns the weight that a node dequantizes.

    None if it is none; if the runtime has a form for the whole, see `weight_of`; if calls other than linear
    layers read it; and if its float32 numbers take less than twice the bytes, as for layers with few outputs.

    Args:
        node: the weight of a linear layer.
        constant: returns the value of a constant node, and None for other nodes.
    """
    found = quantized_constant(node, constant)
    if found is None:
        return None
    levels = found.tensor
    if levels.dtype not in (torch.int8, torch.uint8) or levels.dim() != 2:
        return None
    if not levels.numel() or not are_steps(found.scales):
        return None
    whole = weight_of(node, constant)
    is_read = all(user.target is aten.linear.default and bind(user)["weight"] is node for user in node.users)
    if not is_read or (whole is not None and not whole.width):
        return None
    rows = found.block[0]
    shift, packs = _shift(levels)
    zeros = torch.zeros_like(found.scales) if found.zeros is None else found.zeros
    shifted = zeros.to(torch.float64).repeat_interleave(rows, 0) - shift
    made = Grouped(
        node,
        found.levels,
        (levels.to(torch.int16) - shift).to(torch.int8) if shift else levels.detach(),
        found.scales.to(torch.float32).repeat_interleave(rows, 0),
        shifted if bool(shifted.any()) else None,
        packs,
    )
    return made if _bytes(made) * 2 <= _FLOAT_BYTES * levels.numel() else None


def _shift(levels: Tensor) -> tuple[int, bool]:
    """Returns what is subtracted from levels, and whether four bits hold the differences."""
    if is_int4(levels):
        return 0, True
    low, high = (int(each) for each in levels.aminmax())
    if high - low < _LEVELS_OF_INT4:
        return low - _LEAST_SHIFTED, True
    return (_UNSIGNED_SHIFT if levels.dtype == torch.uint8 else 0), False


def _bytes(weight: Grouped) -> int:
    """Returns about how many bytes of a program a weight takes."""
    numbers = weight.steps.numel() * (1 if weight.zeros is None else 2)
    levels = weight.levels.numel() // (2 if weight.is_int4 else 1)
    return levels + _FLOAT_BYTES * numbers + _BYTES_OF_GROUP * weight.groups
