# SPDX-License-Identifier: Apache-2.0
"""Operands of functions that are undefined beyond a bound: no quantized value is beyond it.

A sample of 1 may become 1.004, whose arc cosine is NaN.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from delegatec.quantize.annotate.observers import (
    FixedObserver,
    MaskedHistogramObserver,
    MaskedMinMaxObserver,
    insert_observer,
)

aten = torch.ops.aten

_UNIT: Final = (-1.0, 1.0)
# Operator -> the values that its operand may have. Zero is always a quantized value, and so a good bound.
_DOMAINS: Final = {
    aten.acos.default: _UNIT,
    aten.asin.default: _UNIT,
    aten.atanh.default: _UNIT,
    aten.erfinv.default: _UNIT,
    aten.acosh.default: (1.0, math.inf),
    aten.log1p.default: (-1.0, math.inf),
    aten.logit.default: (0.0, 1.0),
}


def keep_in_domains(prepared: GraphModule) -> None:
    """Moves the quantized values of operands into the domains of functions, by less than a step, in place.

    An operand with a range beyond the domain, of which other values have a part, is quantized again.

    Args:
        prepared: a graph with observers, which have observed all samples.
    """
    for call in list(prepared.graph.nodes):
        bounds = _DOMAINS.get(call.target) if call.op == "call_function" else None
        if bounds:
            _limit(prepared, call, *bounds)
    prepared.recompile()


def _limit(prepared: GraphModule, call: Node, low: float, high: float) -> None:
    (value,) = call.all_input_nodes
    observers = dict(prepared.named_modules(remove_duplicate=False))
    observer = observers.get(str(value.target)) if value.op == "call_module" else None
    if not isinstance(observer, MaskedHistogramObserver | MaskedMinMaxObserver):
        return
    found = _within(observer, low, high)
    if found is None:
        return
    own = FixedObserver(observer, *found)
    if low <= float(observer.min_val) and float(observer.max_val) <= high:
        for name in [name for name, each in observers.items() if each is observer]:
            prepared.set_submodule(name, own)
    else:
        insert_observer(prepared, value, call, own)


def _within(observer: Any, low: float, high: float) -> tuple[float, int] | None:
    """Returns the scale and zero point next to those of an observer for which values are within bounds.

    Returns:
        None for those of the observer, or if there are none.
    """
    scale, zero_point = (each.item() for each in observer.calculate_qparams())
    least, most = observer.quant_min, observer.quant_max
    is_symmetric = observer.qscheme == torch.per_tensor_symmetric
    if is_symmetric and low == 0:
        low = -math.inf  # values above zero stay there
    if low <= 0 and _fits(scale, zero_point, observer, low, high):
        return None
    if low > 0 or (is_symmetric and high == math.inf):
        return _with_level(scale, zero_point, low)
    span = min(high / most, -low / -least) * (most - least) if is_symmetric else high - low
    # a zero point for the first of these scales, or else a step that is a little shorter
    for step in (scale, span / (most - least), span / (most - least + 1)):
        step = min(step, scale)
        first, last = max(most - high / step, least), min(least - low / step, most)
        if is_symmetric or math.ceil(first) <= math.floor(last):
            zero = zero_point if is_symmetric else min(max(zero_point, math.ceil(first)), math.floor(last))
            for _ in range(4):  # in float32
                if _fits(step, zero, observer, low, high):
                    return step, zero
                step = _next(step, 0.0)
    return None


def _fits(scale: float, zero_point: int, observer: Any, low: float, high: float) -> bool:
    edges = [float(_value(edge, scale, zero_point)) for edge in (observer.quant_min, observer.quant_max)]
    return low <= edges[0] and edges[1] <= high


def _with_level(scale: float, zero_point: int, low: float) -> tuple[float, int] | None:
    """Returns a scale of which a bound is a multiple: values above it stay there."""
    steps = math.floor(abs(low) / scale)
    if not steps:  # numbers down to minus half a step become zero
        return (2 * abs(low), zero_point) if low < 0 and scale < 2 * abs(low) else None
    scale, level = float(torch.tensor(abs(low) / steps)), zero_point + (steps if low > 0 else -steps)
    while float(_value(level, scale, zero_point)) < low:
        scale = _next(scale, math.inf if low > 0 else 0.0)
    return scale, zero_point


def _next(scale: float, towards: float) -> float:
    return float(torch.nextafter(torch.tensor(scale), torch.tensor(towards)))


def _value(level: int, scale: float, zero_point: int) -> Tensor:
    return torch.tensor(level - zero_point, dtype=torch.float32) * torch.tensor(scale, dtype=torch.float32)
