# SPDX-License-Identifier: Apache-2.0
"""The layout of values in MLX's graphs, see `edge/channels_last`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from delegatec.backends.common import layout
from delegatec.backends.common.legality import TableTarget
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.delegation import PartitionView
from delegatec.edge.channels_last.rules import RULES, OperationRules
from delegatec.edge.passes.pass_manager import Pass

_RULES: Final[OperationRules] = {**RULES}


def layout_passes(view: PartitionView, target: TableTarget[Settings]) -> Sequence[Pass]:
    """Returns the passes that choose the layout of a legal private program of the partition."""
    return layout.layout_passes(view, target, _RULES)
