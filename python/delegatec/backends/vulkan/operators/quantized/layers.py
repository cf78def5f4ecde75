# SPDX-License-Identifier: Apache-2.0
"""Layers from int8 to int8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.memory.demands import Demands, Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import (
    INT8,
    INT8_CHANNELS,
    Representation,
    Representations,
)
from delegatec.backends.vulkan.operators.row import OperatorRow, operator_row, same_call
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind

_OPERANDS: Final = frozenset({torch.int8, torch.int32, torch.float32})


def _image(operand: Representations) -> Demands:
    def demands(node: Node, _: IsConstant) -> Sequence[Group]:
        return Group(operand, (bind(node)["x"],)), Group(INT8_CHANNELS, (), (0,))

    return demands


def _rows(representation: Representation) -> Demands:
    def demands(node: Node, _: IsConstant) -> Sequence[Group]:
        return (Group(frozenset({representation}), (bind(node)["x"],), (0,)),)

    return demands


def _row(name: str, demands: Demands) -> OperatorRow:
    target: Any = getattr(RUNTIME, name).default
    return operator_row(target, demands, _OPERANDS, lower=same_call(f"et_vk.{name}.default"))


ROWS: Final = (
    _row("q8ta_conv2d", _image(INT8_CHANNELS)),
    _row("q8ta_conv2d_dw", _image(INT8_CHANNELS)),
    _row("q8ta_conv2d_pw", _image(frozenset({Representation.INT8_4W4C}))),
    _row("q8ta_conv2d_transposed", _image(INT8_CHANNELS)),
    _row("q8ta_linear", _rows(Representation.INT8_4H4W)),
    _row("q8ta_linear_gemv", _rows(Representation.INT8_4W)),
    _row("q8ta_add", tied(INT8)),
    _row("q8ta_relu", tied(INT8)),
)
