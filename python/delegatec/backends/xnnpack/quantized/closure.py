# SPDX-License-Identifier: Apache-2.0
"""Groups of calls that are replaced together, whose inner values have no other consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from torch.fx import Node


class Fused(Protocol):
    """A group of calls.

    Attributes:
        calls: all calls.
        inner: those whose values have no replacement.
    """

    @property
    def calls(self) -> Sequence[Node]: ...
    @property
    def inner(self) -> Sequence[Node]: ...


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
