# SPDX-License-Identifier: Apache-2.0
"""Logarithms of odds as one operator: detectors write them out as log(x / (1 - x)) with bounds of both terms.

The quotient ranges over ten orders of magnitude, which no scale can represent. The result ranges from -12 to
12.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule

from delegatec.edge.patterns.formulas import reciprocal
from delegatec.edge.patterns.pattern import ANY, Call, Pattern, Scalar, Var

aten = torch.ops.aten


def _at_least(x: Pattern) -> Pattern:
    bounds = (aten.clamp.default, aten.clamp_min.default)
    return Call(bounds, x, Scalar("eps").where(lambda eps: 0 < eps < 0.5))


def _logarithm(x: Pattern, y: Pattern) -> Pattern:
    return Call(aten.log.default, x * reciprocal(y) | x / y)


def _rest(x: Pattern) -> Pattern:
    return Call(aten.rsub.Scalar, x, 1)


_X: Final = Var("x")
# Bounds of both terms do not bound a value beyond 1, as `aten.logit` does.
_SHARE: Final = Var("x", Call(aten.clamp.default, ANY, 0, 1) | Call(aten.sigmoid.default, ANY))
_LOGIT: Final = _logarithm(_at_least(_SHARE), _at_least(_rest(_SHARE))) | _logarithm(_X, _rest(_X))


def fuse_logits(model: GraphModule) -> None:
    """Replaces the calls by `aten.logit`, in place.

    With bounds, x is clamped to [eps, 1 - eps] instead. The results differ by less than eps.
    """
    for node in model.graph.find_nodes(op="call_function", target=aten.log.default):
        found = _LOGIT.first(node)
        if found is None:
            continue
        eps: tuple[Any, ...] = (found.values["eps"],) if "eps" in found.values else ()
        with model.graph.inserting_before(node):
            fused = model.graph.call_function(aten.logit.default, (found.values["x"], *eps))
        fused.meta = dict(node.meta)
        node.replace_all_uses_with(fused)
    model.graph.eliminate_dead_code()
    model.recompile()
