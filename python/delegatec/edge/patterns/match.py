# SPDX-License-Identifier: Apache-2.0
"""The state of a match: the values of variables, and the calls that have matched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.fx import Node


@dataclass(frozen=True)
class Match:
    """The partial match of a pattern.

    Attributes:
        constant: returns the value of a constant node, and None for other nodes.
        values: name of a variable -> its node or scalar.
        calls: the matched calls, users before operands; one that the pattern mentions twice is there twice.
    """

    constant: Callable[[Node], Tensor | None] = lambda _: None
    values: Mapping[str, Any] = field(default_factory=dict)
    calls: tuple[Node, ...] = ()

    def binding(self, name: str, value: Any) -> Match:
        """Returns the match with another variable."""
        return Match(self.constant, {**self.values, name: value}, self.calls)

    def calling(self, node: Node) -> Match:
        """Returns the match with another call."""
        return Match(self.constant, self.values, (*self.calls, node))
