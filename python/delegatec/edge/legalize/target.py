# SPDX-License-Identifier: Apache-2.0
"""Targets of legalization: which calls are legal, and the rules for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.rule import Refusal, Rule


class Target(Protocol):
    """Decides what is legal. It reads nodes and never edits them."""

    @property
    def closes(self) -> bool:
        """Whether a rule is undone if something that it makes cannot be made legal."""
        ...

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """Say why a call cannot stay as it is; None if it is legal.

        Args:
            node: the call.
            facts: what is known of the values of its program.
        """
        ...

    def rules(self, node: Node) -> Sequence[Rule]:
        """Returns the rules for a call that is not legal, in order of preference."""
        ...
