# SPDX-License-Identifier: Apache-2.0
"""A row of a backend's operator table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch._ops import OpOverload
from torch.fx import Node

BuilderT = TypeVar("BuilderT", contravariant=True)
"""What a backend's lowerings append to."""
SettingsT = TypeVar("SettingsT", contravariant=True)
"""What a user chose for a backend."""


@dataclass(frozen=True)
class Constraint(Generic[SettingsT]):
    """What a row requires of a node.

    Attributes:
        rule: stable short id, such as "dtype".
        doc: the constraint and its reason, for the operator table of the docs.
        broken: what is wrong with a node; None if nothing is.
        help: what would make the node pass.
    """

    rule: str
    doc: str
    broken: Callable[[Node, SettingsT], str | None]
    help: str = ""


@dataclass(frozen=True)
class OperatorRow(Generic[BuilderT, SettingsT]):
    """How one ATen overload lowers.

    Attributes:
        target: the overload.
        emits: names of the format's operations that it may become; casts for type promotion not counted.
        lower: appends them to what the builder builds.
        constraints: what a node must satisfy beyond what holds for the whole table.
        computes: whether a delegate of such nodes alone is worth its call; false for what only moves data.
        note: what a reader of the table should know.
        preserved: whether the operator reaches the partitioner as it is, and not decomposed.
    """

    target: OpOverload
    emits: tuple[str, ...]
    lower: Callable[[BuilderT, Node], None]
    constraints: tuple[Constraint[SettingsT], ...] = ()
    computes: bool = True
    note: str = ""
    preserved: bool = False


def overload(name: str) -> OpOverload:
    """An ATen overload by name: "add.Tensor"; "exp" is its default overload."""
    packet, _, variant = name.partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), variant or "default")
    return found


def variants(names: Mapping[str, str], *suffixes: str) -> dict[str, str]:
    """The members "name.suffix" of a family, for each name and suffix."""
    return {f"{name}.{suffix}": operation for name, operation in names.items() for suffix in suffixes}
