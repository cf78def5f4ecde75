# SPDX-License-Identifier: Apache-2.0
"""Ranges of functions that are infinite at zero, as a norm's factor nearly is for a row of zeros.

A row of padding has the factor 1e6 in a layer norm with epsilon 1e-12, and other rows have 1. In a range that
covers both, the others are zero. A quantized operand does not tell apart values below half of its step, so
results of much smaller operands have no meaning: they are outside of the range, and get its largest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from delegatec.quantize.annotate.observers import MaskedHistogramObserver, MaskedMinMaxObserver, narrowed
from delegatec.quantize.operators import Kind, kind_of

aten = torch.ops.aten

_POLES: Final = {aten.rsqrt.default: torch.rsqrt, aten.reciprocal.default: torch.reciprocal}
# Of a quantization step: a row of a norm that is 40 dB below the loudest one keeps its factor.
_LEAST: Final = 1 / 32

_Extremes = dict[int, tuple[float, float]]


class PoleRanges:
    """Watches the results of such functions while samples are observed.

    Args:
        prepared: a graph with observers, which have observed nothing yet.
    """

    def __init__(self, prepared: GraphModule) -> None:
        self._prepared = prepared
        self._observers = dict(prepared.named_modules(remove_duplicate=False))
        # Observer of a result -> the call, and for each binary exponent the least and the largest magnitude.
        self._watched: dict[Any, tuple[Node, _Extremes]] = {}
        self._hooks = []
        for observer, node in self._results():
            extremes: _Extremes = {}
            self._watched[observer] = (node, extremes)
            self._hooks.append(
                observer.register_forward_pre_hook(
                    lambda _, inputs, found=extremes: _extend(found, inputs[0])
                )
            )

    def limit(self) -> None:
        """Narrows the ranges of the graph, in place, and watches no longer."""
        for hook in self._hooks:
            hook.remove()
        for observer, (node, extremes) in self._watched.items():
            step = self._observers[str(node.args[0].target)].calculate_qparams()[0]  # type: ignore[union-attr]
            largest = float(_POLES[node.target](step * _LEAST))  # type: ignore[index]
            kept = [min(high, largest) for low, high in extremes.values() if low <= largest]
            if kept:
                self._narrow(observer, max(kept))

    def _results(self) -> Iterator[tuple[Any, Node]]:
        """Yields each observer of results of one function alone, and the call."""
        producers: dict[Any, set[Node]] = {}
        for node in self._prepared.graph.nodes:
            observer = self._observers.get(str(node.target)) if node.op == "call_module" else None
            if isinstance(observer, MaskedHistogramObserver | MaskedMinMaxObserver):
                producers.setdefault(observer, set()).add(self._origin(node.args[0]))
        for observer, nodes in producers.items():
            (node, *others) = nodes
            if not others and node.target in _POLES and node.args[0].op == "call_module":  # type: ignore[union-attr]
                yield observer, node

    def _origin(self, node: Any) -> Node:
        """Returns the call whose values a node has, perhaps in another shape."""
        while node.op == "call_module" or (kind_of(node) is Kind.SHARED and len(node.all_input_nodes) == 1):
            node = node.all_input_nodes[0]
        found: Node = node
        return found

    def _narrow(self, observer: Any, most: float) -> None:
        low, high = (value.clamp(-most, most) for value in (observer.min_val, observer.max_val))
        if bool(low == observer.min_val) and bool(high == observer.max_val):
            return
        own = narrowed(observer, low, high)
        for name in [name for name, each in self._observers.items() if each is observer]:
            self._prepared.set_submodule(name, own)


def _extend(extremes: _Extremes, value: Tensor) -> None:
    magnitudes = value.detach().abs().float()
    magnitudes = magnitudes[torch.isfinite(magnitudes)]
    exponents = torch.frexp(magnitudes).exponent
    for exponent in set(exponents.flatten().tolist()):
        part = magnitudes[exponents == exponent]
        low, high = extremes.get(exponent, (torch.inf, 0.0))
        extremes[exponent] = (min(low, float(part.min())), max(high, float(part.max())))
