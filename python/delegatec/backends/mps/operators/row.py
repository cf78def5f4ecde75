# SPDX-License-Identifier: Apache-2.0
"""A row of the operator table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.compile_spec import Precision


@dataclass(frozen=True)
class Constraint:
    """What a row asks of a node.

    Attributes:
        rule: stable short id, such as "dtype".
        doc: the constraint and its reason, for the operator table of the docs.
        broken: what is wrong with a node; None if nothing is.
        help: what would make the node pass.
    """

    rule: str
    doc: str
    broken: Callable[[Node, Precision], str | None]
    help: str = ""


@dataclass(frozen=True)
class OperatorRow:
    """How one ATen overload lowers.

    Attributes:
        target: the overload.
        emits: names, in `schema.Operation`, of the operations it may become; casts for type promotion not
            counted.
        lower: appends them to a graph.
        constraints: what a node must satisfy beyond what holds for all (`rules.UNIVERSAL`).
        computes: whether a delegate of such nodes alone is worth its call; false for what only moves data.
        note: what a reader of the table should know.
        whole: whether the edge program leaves the operator whole for it, which it would take apart.
    """

    target: OpOverload
    emits: tuple[str, ...]
    lower: Callable[[GraphBuilder, Node], None]
    constraints: tuple[Constraint, ...] = ()
    computes: bool = True
    note: str = ""
    whole: bool = False
