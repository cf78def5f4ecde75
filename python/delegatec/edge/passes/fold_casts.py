# SPDX-License-Identifier: Apache-2.0
"""Folds lossless conversions to a dtype and back.

Quantized activations contain them: they are rounded and clamped to an integer dtype, converted to it, and
back to floating point. Delegates may not support that dtype, or round differently from ATen.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.formulas import cast
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Var
from delegatec.edge.program import EdgeProgram


def fold_casts(program: EdgeProgram) -> bool:
    """Replaces a conversion to a dtype and back by its operand, if that is equal."""
    return rewrite(program, _RULES)


def _fold(b: Builder, node: Node, x: Node, through: Node) -> Node | None:
    return x if dtype_of(x) == dtype_of(node) and _is_lossless(b.facts, x, dtype_of(through)) else None


def _is_lossless(facts: Facts, source: Node, through: torch.dtype) -> bool:
    """Whether a conversion to a dtype and back does not change values."""
    kind = dtype_of(source)
    if not kind.is_floating_point or through.is_complex or through == torch.bool:
        return False
    if through.is_floating_point:
        narrow, wide = torch.finfo(kind), torch.finfo(through)
        return wide.max >= narrow.max and wide.tiny <= narrow.tiny and wide.eps <= narrow.eps
    # Integer dtypes do not have NaN; torch does not specify conversions of other values that do not fit.
    limits, values = torch.iinfo(through), facts.of(source)
    return values.is_integral and limits.min <= values.low and values.high <= limits.max


_RULES: Final = fusion(cast(cast(Var("x")).named("through")), _fold)
