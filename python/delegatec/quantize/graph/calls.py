# SPDX-License-Identifier: Apache-2.0
"""Marks of calls, which name the same call in each quantization of a model: layers stay in float by them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from torch.fx import Node

_CALL: Final = "delegatec_call"


def mark_calls(nodes: Iterable[Node]) -> None:
    """Marks each call of a graph by its position, in place.

    Calls that are derived from one have its metadata, and so its mark.
    """
    for position, node in enumerate(nodes):
        if node.op == "call_function":
            node.meta[_CALL] = position


def call_of(node: Node) -> int | None:
    """Returns the mark of a call; None for other nodes."""
    mark: int | None = node.meta.get(_CALL)
    return mark
