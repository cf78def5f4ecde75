# SPDX-License-Identifier: Apache-2.0
"""Constraints of targets and rules on calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch.fx import Node

SettingsT = TypeVar("SettingsT", contravariant=True)
"""A user's settings for a backend."""


@dataclass(frozen=True)
class Constraint(Generic[SettingsT]):
    """A constraint of a row or a rule on a node.

    Attributes:
        rule: stable short id, such as "dtype".
        doc: the constraint and its reason, for the operator table of the docs.
        broken: returns the violation by a node, or None.
        help: how to satisfy it.
    """

    rule: str
    doc: str
    broken: Callable[[Node, SettingsT], str | None]
    help: str = ""
