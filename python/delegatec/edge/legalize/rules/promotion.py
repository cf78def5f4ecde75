# SPDX-License-Identifier: Apache-2.0
"""Conversion of operands to the dtype that they are promoted to, for targets that do not promote."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, promoted
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import value_of
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten


def _promote(builder: Builder, node: Node) -> Any:
    """Converts operands to the dtype of the result, and those of a comparison to their common one."""
    bound = bind(node)
    operands = {name: bound[name] for name in ("self", "other") if name in bound}
    dtype = dtype_of(node)
    if dtype == torch.bool:
        dtype = promoted([*operands.values()])
    nodes = {name: each for name, each in operands.items() if isinstance(each, Node) and not is_scalar(each)}
    if all(dtype_of(each) == dtype for each in nodes.values()):
        return None
    return again(builder, node, **{name: value_of(builder, each, dtype).node for name, each in nodes.items()})


_PROMOTING: Final = (aten.add, aten.sub, aten.mul, aten.div, aten.lt, aten.le, aten.gt, aten.ge)

PROMOTED: Final = tuple(
    Rewrite(target, _promote, note="operands are converted to one dtype")
    for target in (
        *(getattr(packet, kind) for packet in _PROMOTING for kind in ("Tensor", "Scalar")),
        *(aten.rsub.Scalar, aten.minimum.default, aten.maximum.default, aten.where.self),
    )
)
PROMOTED_CLAMP: Final = Rewrite(aten.clamp.default, _promote)
