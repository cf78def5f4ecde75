# SPDX-License-Identifier: Apache-2.0
"""Creation of tensors, and conversions between dtypes."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder, is_size
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.backends.mlx.operators.row import Constraint, movement
from delegatec.backends.mlx.operators.rules import CONTIGUOUS, KNOWN_NUMBERS
from delegatec.edge.arguments import bind, dtype_of


def _full(b: GraphBuilder, node: Node) -> None:
    """Broadcasts a constant of rank 0, which is exact for integers, unlike the number of a Full."""
    scalar, *_ = (value for name, value in bind(node).items() if name in ("fill_value", "s"))
    shape = node.meta["val"].shape
    value = b.operand(scalar, dtype_of(node))
    if not shape:
        b.alias(node, value)
    else:
        b.emit("BroadcastTo", x=value, out=b.result(node), shape=b.integers(shape))


def _arange(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    start, stop, step = (
        b.integer(int(bound[name]) if isinstance(bound[name], float) else bound[name])
        for name in ("start", "end", "step")
    )
    b.emit("Arange", out=b.result(node), start=start, stop=stop, step=step, dtype=TO_FORMAT[dtype])


def _to_copy(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.converted(b.of(bind(node)["self"]), dtype_of(node)))


def _is_integer(value: Any) -> bool:
    return is_size(value) or (isinstance(value, float) and value.is_integer())


def _fractions(node: Node, _: object) -> str | None:
    bound = bind(node)
    named = ((name, bound[name]) for name in ("start", "end", "step"))
    found = next(((name, value) for name, value in named if not _is_integer(value)), None)
    if found is not None:
        return f"{found[0]} is {found[1]}"
    return "bool" if dtype_of(node) == torch.bool else None


_INTEGERS: Final = Constraint(
    "argument", "start, end and step are integers: the format has no others here.", _fractions
)

ROWS: Final = (
    movement("full", _full, KNOWN_NUMBERS, note="a constant that is broadcast"),
    movement("scalar_tensor", _full, KNOWN_NUMBERS, note="a constant"),
    movement("arange.start_step", _arange, _INTEGERS),
    movement("_to_copy", _to_copy, CONTIGUOUS),
)
