# SPDX-License-Identifier: Apache-2.0
"""All convolution operators, as aten.convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable

aten = torch.ops.aten


def _convolution(spatial: int, transposed: bool) -> Rule:
    def rule(b: Builder, node: Node) -> Node | None:
        arguments = bind(node)
        x = arguments["input"]
        if len(shape_of(x)) != spatial + 2:
            return None

        def sizes(name: str, default: int) -> list[Any]:
            return each(arguments.get(name), spatial, [default])

        return b.call(
            aten.convolution.default,
            x,
            arguments["weight"],
            arguments["bias"],
            sizes("stride", 1),
            sizes("padding", 0),
            sizes("dilation", 1),
            transposed,
            sizes("output_padding", 0),
            arguments["groups"],
            val=node.meta["val"],
        )

    return rule


RULES: RuleTable = {
    aten.conv1d.default: _convolution(1, False),
    aten.conv2d.default: _convolution(2, False),
    aten.conv3d.default: _convolution(3, False),
    aten.conv_transpose1d.default: _convolution(1, True),
    aten.conv_transpose2d.input: _convolution(2, True),
    aten.conv_transpose3d.input: _convolution(3, True),
}
