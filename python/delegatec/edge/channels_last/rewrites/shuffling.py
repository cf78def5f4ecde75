# SPDX-License-Identifier: Apache-2.0
"""Channels that become pixels, as a permutation between views."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _pixel_shuffle(builder: Builder, node: Node) -> Node:
    bound, shape = bind(node), shape_of(node)
    x, factor = value_of(builder, bound["self"]), bound["upscale_factor"]
    channels, rows, columns = x.shape[-3:]
    split = x.view(math.prod(x.shape[:-3]), channels // factor**2, factor, factor, rows, columns)
    return split.permute(0, 1, 4, 2, 5, 3).view(*shape).node


REWRITES: Final = (Rewrite(aten.pixel_shuffle.default, _pixel_shuffle, computes=False, note="a permutation"),)
