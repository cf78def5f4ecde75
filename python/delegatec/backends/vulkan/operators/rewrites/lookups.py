# SPDX-License-Identifier: Apache-2.0
"""Look-ups in the form that the runtime has: gathers."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import TensorIndex
from delegatec.edge.legalize.rules.lookups import INDICES
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _index(builder: Builder, node: Node) -> Node:
    """Selects along the indexed dimensions as one, by a row of positions."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    place = TensorIndex(x, bound["indices"])
    positions = place.index.view(place.index.numel)
    return place.of(x).index_select(place.axis, positions).view(*shape_of(node)).node


REWRITES: Final = (Rewrite(aten.index.Tensor, _index, (HAS_AXIS, INDICES), note="`index_select`"),)
