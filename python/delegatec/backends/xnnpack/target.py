# SPDX-License-Identifier: Apache-2.0
"""The delegate as a target of legalization: quantized calls read and compute integers; all others do not."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.rewrites.byte_inputs import is_of_bytes
from delegatec.backends.xnnpack.operators.rewrites.integers import is_mixed
from delegatec.backends.xnnpack.operators.rules import SHAPES
from delegatec.backends.xnnpack.quantized.weights import CALLS
from delegatec.edge.legalize.rule import Refusal, first_broken
from delegatec.edge.quantization.operators import QUANTIZE

aten = torch.ops.aten

_INTEGERS: Final = frozenset({QUANTIZE, *CALLS})
_GATHERS: Final = frozenset({aten.index_select.default, aten.index.Tensor})
"""Calls with operands that are constant indices, not values to compute with."""
_POSITIONS: Final = frozenset(
    {
        *(aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim),
        *(aten.max_pool2d_with_indices.default, XNNPACK.to_index.default),
    }
)
"""Calls with results that are indices."""
_EXEMPT: Final = _INTEGERS | _GATHERS | _POSITIONS


class XnnpackTarget(TableTarget[Settings]):
    """The table; the rows' constraints on dtypes do not apply to quantized calls, or to indices."""

    def exclusion(self, node: Node) -> Refusal | None:
        """See `TableTarget.exclusion`."""
        is_exempt = node.target in _EXEMPT or is_mixed(node) or is_of_bytes(node)
        return first_broken(SHAPES, node, self.settings) if is_exempt else super().exclusion(node)
