# SPDX-License-Identifier: Apache-2.0
"""Products with, and gathers from, 8-bit or 4-bit constants. The runtime packs them before the first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.dtypes import FLOATS, INTEGERS
from delegatec.backends.vulkan.memory.demands import Group, IsConstant
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.memory.representation import WIDTH
from delegatec.backends.vulkan.operators.products import product_group
from delegatec.backends.vulkan.operators.row import OperatorRow, operator_row, same_call
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind, dtype_of

_OPERANDS: Final = FLOATS | INTEGERS | {torch.int8, torch.uint8}


def _linear_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    source = bind(node)["x"]
    return (product_group(ROW_PACKED, node, source, (source,)),)


def _quantized_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    """With float16 in buffers, sums of quantized values are float16, too, and overflow."""
    allowed = ROW_PACKED if dtype_of(node) == torch.float32 else WIDTH
    return (Group(allowed, (bind(node)["x"],), (0,)),)


def _embedding_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    return (Group(ROW_PACKED, (bind(node)["indices"],), (0,)),)


def _row(target: Any, demands: Any, name: str) -> OperatorRow:
    return operator_row(target, demands, _OPERANDS, lower=same_call(f"et_vk.{name}.default"), resizes=())


ROWS: Final = (
    _row(RUNTIME.linear_q8csw.default, _quantized_memory, "linear_q8csw"),
    _row(RUNTIME.linear_q4gsw.default, _linear_memory, "linear_q4gsw"),
    _row(RUNTIME.embedding_q4gsw.default, _embedding_memory, "embedding_q4gsw"),
)
