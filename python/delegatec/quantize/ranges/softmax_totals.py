# SPDX-License-Identifier: Apache-2.0
"""Ranges of the sums of exponentials in softmax.

Scores that differ by less than a quantization step become equal: then the sum has two ones where the samples
had one and a small number. Beyond its range, probabilities would be too large by as much.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from delegatec.edge.arguments import bind
from delegatec.quantize.annotate.observers import MaskedHistogramObserver, MaskedMinMaxObserver, narrowed
from delegatec.quantize.decompose.decompositions import composite_of

aten = torch.ops.aten

# Calls between the scores and the sum, and after it.
_BEFORE: Final = frozenset({aten.exp.default, aten.clamp_min.default, aten.masked_fill.Scalar})
_AFTER: Final = aten.clamp_min.default


def widen_totals(prepared: GraphModule) -> None:
    """Widens the range of each sum by the error of its exponentials, in place."""
    observers = dict(prepared.named_modules(remove_duplicate=False))
    for node in prepared.graph.find_nodes(op="call_function", target=aten.sum.dim_IntList):
        scores = _scores(node) if composite_of(node) is not None else None
        step = float(observers[scores].calculate_qparams()[0]) if scores in observers else 0.0
        if not 0 < step < math.inf:
            continue
        for name in _results(node):
            observer: Any = observers.get(name)
            if isinstance(observer, MaskedHistogramObserver | MaskedMinMaxObserver):
                rest = max(float(observer.max_val) - 1, 0.0)
                most = min(_most(rest, min(step, 100.0)), max(_count(node), 1.0 + rest))
                if most > float(observer.max_val):
                    prepared.set_submodule(name, narrowed(observer, observer.min_val, most))


def _most(rest: float, step: float) -> float:
    """Returns the largest sum of quantized exponentials, of which the largest is 1.

    A difference of scores has an error of two halves of a step. Values that the scores are computed from are
    quantized, too, which may double the error: there is room for a second exponential of 1. For larger sums
    that would cost precision, and in those of many terms such errors cancel.

    Args:
        rest: the largest sum of the other exponentials in samples.
        step: the quantization step of scores.
    """
    return max(1 + rest * math.exp(step), min(1 + rest * math.exp(2 * step), 2.0))


def _scores(total: Node) -> str | None:
    """Returns the name of the observer of the scores that are subtracted from their maximum."""
    node, composite, has_exp = total.all_input_nodes[0], composite_of(total), False
    while node.op == "call_module" or (node.target in _BEFORE and composite_of(node) == composite):
        has_exp |= node.target is aten.exp.default
        node = node.all_input_nodes[0]
    if not has_exp or node.target is not aten.sub.Tensor or composite_of(node) != composite:
        return None
    first: Any = node.args[0]
    return str(first.target) if first.op == "call_module" else None


def _results(total: Node) -> list[str]:
    """Returns the names of the observers of the sum, and of its bound."""
    found, waiting = [], [*total.users]
    while waiting:
        node = waiting.pop()
        if node.op == "call_module":
            found.append(str(node.target))
            waiting += [user for user in node.users if user.target is _AFTER]
        elif node.target is _AFTER:
            waiting += [*node.users]
    return found


def _count(total: Node) -> float:
    """Returns the number of values of a sum; infinity if it is dynamic."""
    bound = bind(total)
    values = bound["self"].args[0]  # of the observer
    shape = values.meta["val"].shape
    # torch sums a scalar along dimension 0, which it does not have, and all dimensions if none are given
    sizes = [shape[dim] for dim in bound["dim"] or range(len(shape)) if shape]
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else math.inf
