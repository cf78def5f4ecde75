# SPDX-License-Identifier: Apache-2.0
"""Products of matrices with a sum, and by constant weights."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import emit
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.linear import ADDMM_BY_MM, LINEAR_BY_MM
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _linear(builder: Builder, node: Node) -> Node | None:
    """Replaces a linear layer by a convolution over rows of pixels, with a constant weight in OHWI order."""
    bound = bind(node)
    x, weight, bias = value_of(builder, bound["input"]), bound["weight"], bound["bias"]
    constant = builder.facts.constant(weight)
    if constant is None or constant.dim() != 2 or (bias is not None and len(shape_of(bias)) != 1):
        return None
    outputs, inputs = shape_of(weight)
    kernel = Value(builder, builder.derived(weight, constant.detach().view(outputs, 1, 1, inputs)))
    rows = x.numel // inputs
    image = x.view(1, rows, 1, inputs)
    result = emit(
        NHWC.conv2d.default,
        *(image, kernel, bias, [1, 1], [0, 0, 0, 0], [1, 1], 1),
        shape=(1, rows, 1, outputs),
    )
    return result.view(*shape_of(node)).node


REWRITES: Final = (
    ADDMM_BY_MM,
    Rewrite(aten.linear.default, _linear, note="a convolution if the weight is constant", preserved=True),
    LINEAR_BY_MM,
)
