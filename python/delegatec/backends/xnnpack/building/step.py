# SPDX-License-Identifier: Apache-2.0
"""An operation of a graph under construction."""

from __future__ import annotations

from dataclasses import dataclass

from delegatec_schemas.xnnpack_graph import NodeT
from torch.fx import Node


@dataclass(frozen=True)
class Step:
    """An operation of a draft.

    Attributes:
        node: the operation in the format.
        origins: the nodes of the program that it computes.
    """

    node: NodeT
    origins: tuple[Node, ...]
