# SPDX-License-Identifier: Apache-2.0
"""Matrix products, convolutions and gathers in the forms that the runtime has."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules import convolution, convolution_in_parts, gather, linear, slicing
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten


def _second_channel(builder: Builder, node: Node) -> Node | None:
    """Computes a second channel of zeros: the runtime takes a filter of one channel for a depthwise one."""
    bound = bind(node)
    weight = builder.facts.constant(bound["weight"])
    if weight is None or weight.dim() != 4 or weight.shape[:2] != (1, 1) or bound["transposed"]:
        return None
    wide = dict(bound)
    for name in ("weight", "bias") if bound["bias"] is not None else ("weight",):
        value = builder.facts.constant(bound[name])
        if value is None:
            return None
        value = value.detach()
        wide[name] = builder.derived(bound[name], torch.cat([value, torch.zeros_like(value)]))
    both = Value(builder, builder.call(aten.convolution.default, *wide.values()))
    return both.slice(1, 0, 1).node


REWRITES: Final = (
    linear.LINEAR_OF_ROWS,
    linear.LINEAR_BY_MM,
    linear.ADDMM_BY_MM,
    convolution_in_parts.IMAGE_BY_IMAGE,
    convolution_in_parts.OF_PATCHES,
    convolution.OF_PADDED_SEQUENCE,
    # the runtime does not resize results of a split
    slicing.DYNAMIC_SPLIT_BY_SLICES,
    convolution_in_parts.WITH_MERGED_GROUPS,
    Rewrite(aten.convolution.default, _second_channel, note="with a second channel of zeros"),
    gather.EMBEDDING_BY_SELECTION,
    gather.SELECTION_BY_GATHER,
)
