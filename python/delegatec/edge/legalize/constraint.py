# SPDX-License-Identifier: Apache-2.0
"""What a target or a rule requires of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch.fx import Node

SettingsT = TypeVar("SettingsT", contravariant=True)
"""What a user chose for a backend."""


@dataclass(frozen=True)
class Constraint(Generic[SettingsT]):
    """What a row or a rule requires of a node.

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
