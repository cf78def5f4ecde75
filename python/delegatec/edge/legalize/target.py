# SPDX-License-Identifier: Apache-2.0
"""Targets of legalization: which calls are legal, and the rules for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.rule import Refusal, Rule


class Target(Protocol):
    """Decides which calls are legal. It does not edit nodes."""

    @property
    def full(self) -> bool:
        """Whether a rule is undone if a call that it emits cannot be legalized."""
        ...

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """Returns why a call is illegal; None if it is legal.

        Args:
            node: the call.
            facts: analysis results for its program.
        """
        ...

    def rules(self, node: Node) -> Sequence[Rule]:
        """Returns the rules for an illegal call, in order of preference."""
        ...
