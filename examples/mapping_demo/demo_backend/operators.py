# SPDX-License-Identifier: Apache-2.0
"""Arguments of the operators that the backend supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind

CONVOLUTION: Final = torch.ops.aten.convolution.default
RELU: Final = torch.ops.aten.relu.default
TAN: Final = torch.ops.aten.tan.default


@dataclass(frozen=True)
class Convolution:
    """The arguments of a convolution, by name.

    Attributes:
        input: [batch, channels, height, width].
        weight: [out channels, channels / groups, height, width].
        bias: [out channels].
        window: stride, padding and dilation, each for height and width, then the number of groups.
        transposed: whether it is transposed.
    """

    input: Node
    weight: Node
    bias: Node | None
    window: tuple[int, ...]
    transposed: bool

    @classmethod
    def of(cls, node: Node) -> Convolution:
        """Reads a node that calls `aten.convolution`."""
        bound: dict[str, Any] = bind(node)
        window = [size for name in ("stride", "padding", "dilation") for size in _pair(bound[name])]
        return cls(
            bound["input"],
            bound["weight"],
            bound.get("bias"),
            (*window, bound["groups"]),
            bound["transposed"],
        )


def _pair(sizes: list[int]) -> list[int]:
    """Expands a single number to both dimensions."""
    return [*sizes, *sizes] if len(sizes) == 1 else list(sizes)
