# SPDX-License-Identifier: Apache-2.0
"""Observers of activations with additive masks: -inf, or a large negative value, for ignored positions.

With a range up to the mask, all other values would have the same quantized value. Masked values get the least
quantized value of a range that is wide enough for a softmax to ignore them. Observed values are finite, like
quantized ones: in a row whose scores are all masked, a softmax has equal weights, not NaN.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver

from delegatec.quantize.decompose.decompositions import MASKED
from delegatec.quantize.graph.constants import unused_name

# A value is masked if it is below half of a minimum of at least this magnitude, and all others are much
# smaller.
_LARGE: Final = 5e3
_RATIO: Final = 100
# Values beyond are products with infinities, such as the logarithm of zero, that a mask replaces.
_HUGE: Final = 1e35
# exp(-16) is less than half a quantization step of int16.
_BELOW: Final = 16.0
# The search for a range cubes errors in float32.
_WIDEST_SEARCH: Final = 1e12
# The search cuts off this part of the values at a time, as torchao's does.
_STEP: Final = 1e-5
# More than a rounding to float32 changes a number.
_ROUNDED: Final = 1 + 1e-6


class MaskedHistogramObserver(HistogramObserver):  # type: ignore[misc]
    """A histogram of the values that are not masked."""

    # Several values have one observer.
    _range: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Observes the values of a tensor, and returns it without -inf."""
        self._range = None
        super().forward(unmasked(x))
        return x.clamp_min(torch.finfo(x.dtype).min)

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        """Returns the range with the least error, or that of all values if the error would overflow."""
        if _WIDEST_SEARCH < float(self.max_val - self.min_val) < torch.inf:
            return self.min_val, self.max_val
        if self._range is None:
            first, last = self._best_bins()
            width = (self.max_val - self.min_val) / self.bins
            self._range = self.min_val + width * first, self.min_val + width * (last + 1)
        return self._range

    def _best_bins(self) -> tuple[int, int]:
        """Returns the first and the last bin of the range.

        They are those of the search in torchao, which reads elements of tensors one by one: that took most of
        the time of a calibration with few samples. A step cuts values off at one end: at the one where fewer
        bins go, or at the upper one. The search ends when the error grows.
        """
        counts = torch.cumsum(self.histogram, 0).tolist()
        total = float(self.histogram.sum())

        def quantile(part: float) -> float:
            """Returns the number of values below a quantile, which is compared in float32."""
            return float(np.float32(part * total))

        lower, upper = 0.0, 1.0
        first, last = 0, self.bins - 1
        least = float("inf")
        left = bisect_left(counts, quantile(lower + _STEP), first, last)
        while lower < upper:
            next_upper, right = upper - _STEP, last
            # Most steps are smaller than a bin: without a conversion to float32.
            if next_upper * total <= counts[last] * _ROUNDED:
                right = bisect_right(counts, quantile(next_upper), first + 1, last + 1) - 1
            if left - first > last - right:
                lower, chosen = lower + _STEP, (left, last)
            else:
                upper, chosen = next_upper, (first, right)
            if chosen == (first, last):
                continue
            error = self._compute_quantization_error(*chosen)
            if error > least:
                break
            least = error
            first, last = chosen
            left = bisect_left(counts, quantile(lower + _STEP), first, last)
        return first, last


class MaskedMinMaxObserver(MinMaxObserver):  # type: ignore[misc]
    """The least and the largest of the values that are not masked."""

    def forward(self, x: Tensor) -> Tensor:
        """Observes the values of a tensor, and returns it without -inf."""
        super().forward(unmasked(x))
        return x.clamp_min(torch.finfo(x.dtype).min)


class FixedObserver(MaskedMinMaxObserver):
    """An observer with a given scale and zero point.

    Args:
        observer: has the dtype and the range.
        scale: the scale.
        zero_point: the zero point.
    """

    def __init__(self, observer: Any, scale: float, zero_point: int) -> None:
        super().__init__(**_options(observer))
        self.min_val, self.max_val = observer.min_val.clone(), observer.max_val.clone()
        self._fixed = torch.tensor([scale]), torch.tensor([zero_point])

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Returns the scale and the zero point, each of one element."""
        return self._fixed


def unmasked(x: Tensor) -> Tensor:
    """Returns values with the range that quantized values must cover. No quantized value is NaN."""
    x = x.detach()
    x = x[~x.isnan()] if bool(x.isnan().any()) else x
    if bool((x > _HUGE).any()):
        others = x[x.abs() < _HUGE]
        x = others if bool(others.any()) else x
    x = x[x != MASKED] if bool((x == MASKED).any()) else x
    if not x.numel() or float(x.min()) > -_LARGE:
        return x[torch.isfinite(x)] if x.numel() and not bool(torch.isfinite(x).all()) else x
    lowest = max(float(x.min()), torch.finfo(x.dtype).min)
    # products with an infinity are of any size, unlike masks
    least = -_HUGE if lowest < -_HUGE and bool((x > -_HUGE).any()) else lowest / 2
    others = x[(x > least) & torch.isfinite(x)]
    if not others.numel():
        return x.new_tensor([-_BELOW, 0.0])
    if float(others.abs().max()) * _RATIO > -lowest:
        return x
    return torch.cat([others.flatten(), others.max().reshape(1) - _BELOW])


def narrowed(observer: Any, low: Tensor | float, high: Tensor | float) -> MaskedMinMaxObserver:
    """Returns an observer of another range, which has observed it: bins of a histogram would be too wide."""
    found = MaskedMinMaxObserver(**_options(observer))
    found.min_val, found.max_val = (torch.as_tensor(edge, dtype=torch.float32) for edge in (low, high))
    return found


def _options(observer: Any) -> dict[str, Any]:
    names = ("dtype", "qscheme", "quant_min", "quant_max")
    return {**{name: getattr(observer, name) for name in names}, "eps": float(observer.eps)}


def insert_observer(prepared: GraphModule, value: Node, call: Node, observer: Any) -> None:
    """Inserts an observer between a value and a call, in place.

    Args:
        prepared: a graph with observers.
        value: an observer. A constant is quantized once: the call does not read this one any more.
        call: reads the value.
        observer: the observer.
    """
    name = unused_name(prepared, "activation_post_process_0")
    prepared.add_submodule(name, observer)
    source = value.args[0]
    assert isinstance(source, Node)
    with prepared.graph.inserting_before(call):
        node = prepared.graph.call_module(name, (source if source.op == "get_attr" else value,))
    call.replace_input_with(value, node)
