# SPDX-License-Identifier: Apache-2.0
"""Groups of calls that are replaced together, whose inner values have no other consumers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch.fx import Node


@dataclass(frozen=True)
class Fused:
    """A group of calls that are replaced together.

    Attributes:
        source: the value that they read.
        result: the last call, whose value is replaced.
        calls: all calls, the result last.
    """

    source: Node
    result: Node
    calls: tuple[Node, ...]

    @property
    def inner(self) -> Sequence[Node]:
        """The calls except the result, whose values have no replacement."""
        return self.calls[:-1]


FusedT = TypeVar("FusedT", bound=Fused)


def closed(groups: Sequence[FusedT]) -> list[FusedT]:
    """Returns the groups whose inner values are read only by calls of returned groups.

    Groups may share calls, such as the parameters of a value that several layers read.
    """
    kept = list(groups)
    while True:
        calls = {call for each in kept for call in each.calls}
        alone = [each for each in kept if all(calls.issuperset(call.users) for call in each.inner)]
        if len(alone) == len(kept):
            return kept
        kept = alone
