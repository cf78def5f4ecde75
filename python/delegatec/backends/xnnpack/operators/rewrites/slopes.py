# SPDX-License-Identifier: Apache-2.0
"""PReLU with a slope per channel, which XNNPACK has for the last dimension."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _prelu(builder: Builder, node: Node) -> Any:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    slope = builder.facts.constant(bound["weight"])
    if slope is not None and slope.numel() == 1:
        return builder.call(aten.leaky_relu.default, x.node, slope.item(), val=node.meta["val"])
    image = channels_last(x) if x.rank > 2 else x
    result = emit(XNNPACK.prelu.default, image, bound["weight"], shape=image.shape)
    return (channels_first(result) if x.rank > 2 else result).node


REWRITES: Final = (
    Rewrite(
        aten.prelu.default,
        _prelu,
        note="channels last; one slope is that of leaky_relu",
        preserved=True,
    ),
)
