# SPDX-License-Identifier: Apache-2.0
"""The delegate as a target of legalization: quantized calls read and compute integers, all others do not."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.quantized.scales import QUANTIZE
from delegatec.backends.xnnpack.quantized.weights import CALLS
from delegatec.edge.legalize.rule import Refusal

_INTEGERS: Final = frozenset({QUANTIZE, *CALLS})


class XnnpackTarget(TableTarget[Settings]):
    """The table, in which the constraints of all rows are not for calls on levels."""

    def exclusion(self, node: Node) -> Refusal | None:
        """See `TableTarget.exclusion`."""
        return None if node.target in _INTEGERS else super().exclusion(node)
