# SPDX-License-Identifier: Apache-2.0
"""The table of all operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.table import OperatorTable
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.memory.demands import Group, IsConstant
from delegatec.backends.vulkan.operators import (
    attention,
    convolution,
    creation,
    elementwise,
    gathers,
    moves,
    normalization,
    pooling,
    products,
    reduction,
    state,
)
from delegatec.backends.vulkan.operators.quantized import conversion, layers, weights
from delegatec.backends.vulkan.operators.row import OperatorRow, storable
from delegatec.backends.vulkan.operators.rules import UNIVERSAL

aten = torch.ops.aten

_FAMILIES: Final[Mapping[str, tuple[OperatorRow, ...]]] = {
    "Functions of elements": elementwise.ROWS,
    "Matrix products": products.ROWS,
    "Attention": attention.ROWS,
    "Convolution": convolution.ROWS,
    "Pooling and resizing": pooling.ROWS,
    "Normalization": normalization.ROWS,
    "Reduction": reduction.ROWS,
    "Shape": moves.ROWS,
    "Gather": gathers.ROWS,
    "Creation and conversion": creation.ROWS,
    "State": state.ROWS,
    "Quantization": (*conversion.ROWS, *layers.ROWS, *weights.ROWS),
}

TABLE: Final = OperatorTable(
    _FAMILIES, UNIVERSAL, private=(aten.clone.default, aten.split_with_sizes.default)
)


def demands_with(settings: Settings, is_constant: IsConstant) -> Callable[[Node], Sequence[Group]]:
    """Returns the memory requirements of calls, as a function of the call.

    Args:
        settings: the user's settings.
        is_constant: whether a node is a constant of the program.
    """

    def demands(node: Node) -> Sequence[Group]:
        target: Any = node.target
        row = TABLE.rows[target]
        assert isinstance(row, OperatorRow)
        return storable(node, row.demands, settings, is_constant)

    return demands
