# SPDX-License-Identifier: Apache-2.0
"""A row of a backend's operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.constraint import Constraint, SettingsT

BuilderT = TypeVar("BuilderT", contravariant=True)
"""The graph builder of a backend."""


@dataclass(frozen=True)
class OperatorRow(Generic[BuilderT, SettingsT]):
    """The lowering of one ATen overload, or of an operator of control flow.

    Attributes:
        target: the overload. A row of a control-flow operator declares that delegates run its bodies.
        lower: appends nodes of this overload to the graph of a builder.
        constraints: of this row, in addition to those of the table.
        computes: whether a delegate with only such nodes is worth its call; false for data movement.
        note: a remark for the operator table of the docs.
        preserved: whether the operator must not be decomposed before partitioning.
        known: constraints on values that analysis must prove; rewrites establish them.
    """

    target: OpOverload | HigherOrderOperator
    lower: Callable[[BuilderT, Node], None]
    constraints: tuple[Constraint[SettingsT], ...] = ()
    computes: bool = True
    note: str = ""
    preserved: bool = False
    known: tuple[Constraint[Facts], ...] = ()


def overload(name: str) -> OpOverload:
    """Returns an ATen overload by name: "add.Tensor"; "exp" is its default overload."""
    packet, _, variant = name.partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), variant or "default")
    return found


def variants(names: Mapping[str, str], *suffixes: str) -> dict[str, str]:
    """Returns the members "name.suffix" of a family, for each name and suffix."""
    return {f"{name}.{suffix}": operation for name, operation in names.items() for suffix in suffixes}
