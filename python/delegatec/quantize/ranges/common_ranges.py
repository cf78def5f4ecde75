# SPDX-License-Identifier: Apache-2.0
"""Ranges that several values have in common, where a call widens the range of a value that others read, too.

`x.masked_fill(mask, 100)` has one range with `x`, as a concatenation has with its operands, and a comparison.
With the range of the widest of these values, a narrow one is coarse for all its readers. So a narrow operand
that others read keeps a narrow range, and is quantized again for this call.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from delegatec.quantize.annotate.observers import (
    MaskedHistogramObserver,
    MaskedMinMaxObserver,
    insert_observer,
    narrowed,
    unmasked,
)
from delegatec.quantize.annotate.quantizer import annotation_of
from delegatec.quantize.loops.order import BORDERS
from delegatec.quantize.operators import Kind, kind_of

aten = torch.ops.aten

# An operand whose range is a fourth would lose two of eight bits.
_RATIO: Final = 4.0
# Calls with one operand whose results have other values, too.
_FILLS: Final = frozenset({aten.masked_fill.Scalar, aten.constant_pad_nd.default, aten.scatter.value})

# The observer of a value, and a call that it is an operand or a result of.
_Link = tuple[Node, Node]


class CommonRanges:
    """Watches values with common ranges while samples are observed.

    Ranges of loops are not separated: state has one range in all steps.

    Args:
        prepared: a graph with observers, which have observed nothing yet.
    """

    def __init__(self, prepared: GraphModule) -> None:
        self._prepared = prepared
        modules = dict(prepared.named_modules(remove_duplicate=False))
        self._observers: dict[Node, Any] = {
            node: modules[str(node.target)]
            for node in prepared.graph.nodes
            if node.op == "call_module"
            and isinstance(modules[str(node.target)], MaskedHistogramObserver | MaskedMinMaxObserver)
        }
        # Observer -> the links of its values with calls that have one range for all operands and results.
        self._links: dict[Any, list[_Link]] = {}
        for call in prepared.graph.nodes:
            for value in self._values(call) if _has_one_range(call) else ():
                self._links.setdefault(self._observers[value], []).append((value, call))
        for observer in [*self._links]:
            calls = {call for _, call in self._links[observer]}
            if any(call.target in BORDERS for call in calls) or not any(map(self._widens, calls)):
                del self._links[observer]
        self._watched: dict[Node, _Watched] = {}
        for node, observer in self._observers.items():
            if observer in self._links:
                self._watched[node] = _Watched(observer)
                prepared.set_submodule(str(node.target), self._watched[node])

    def separate(self) -> None:
        """Separates ranges of the graph, in place, and watches no longer."""
        for node, watched in self._watched.items():
            self._prepared.set_submodule(str(node.target), watched.observer)
        for observer, links in self._links.items():
            values = [node for node in self._watched if self._observers[node] is observer]
            if len(_parts(values, links)) == 1:
                self._cut(observer, values, links)
        self._prepared.recompile()

    def _values(self, call: Node) -> Iterator[Node]:
        """Yields the observers of the operands and of the results of a call."""
        yield from self._operands(call)
        for user in call.users:
            for each in (user, *user.users):
                if each in self._observers and _call_of(each) is call:
                    yield each

    def _operands(self, call: Node) -> list[Node]:
        return [each for each in call.all_input_nodes if each in self._observers]

    def _widens(self, call: Node) -> bool:
        return call.target in _FILLS or len(self._operands(call)) > 1

    def _cut(self, observer: Any, values: Collection[Node], links: Collection[_Link]) -> None:
        """Separates the ranges of values that have one observer."""
        symmetric = observer.qscheme == torch.per_tensor_symmetric

        def width(nodes: Iterable[Node]) -> float:
            ranges = [self._watched[node].range for node in nodes if node in self._watched]
            low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
            return max(-low, high) if symmetric else high - low

        def share(cut: _Link) -> float:
            """The part of the range of a call that the values with the narrow range have."""
            value, call = (next(part for part in parts if node in part) for node in cut)
            if value is call or not self._is_read(value, cuts):
                return 1.0
            return width(value) / width([*call, cut[0]])

        around: dict[Node, list[Node]] = {}
        for value, call in links:
            around.setdefault(call, []).append(value)
        cuts = {
            (value, call)
            for value, call in links
            if self._widens(call)
            and value in self._operands(call)
            and 0 < _RATIO * width([value]) <= width(around[call])
        }
        while cuts:
            parts = _parts(values, [link for link in links if link not in cuts])
            widest = max(cuts, key=share)
            if share(widest) * _RATIO <= 1:
                break
            cuts.remove(widest)
        if cuts:
            self._apply(observer, parts, cuts, width)

    def _is_read(self, part: Collection[Node], cuts: Collection[_Link]) -> bool:
        """Whether a call of another range, or an output, reads a value of a part."""
        return any(
            user not in part and (value, user) not in cuts
            for value in part
            if value in self._watched
            for user in value.users
        )

    def _apply(
        self,
        observer: Any,
        parts: list[set[Node]],
        cuts: Collection[_Link],
        width: Callable[[Iterable[Node]], float],
    ) -> None:
        """Gives each part an observer; the widest one keeps its."""
        owners: dict[int, Any] = {}
        for index, part in enumerate(sorted(parts, key=width, reverse=True)):
            ranges = [self._watched[node].range for node in part if node in self._watched]
            ranges += [self._watched[value].range for value, call in cuts if call in part]
            low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
            own = narrowed(observer, low, high) if index else observer
            for node in part:
                if node in self._watched:
                    self._prepared.set_submodule(str(node.target), own)
                owners[id(node)] = own
        for value, call in sorted(cuts, key=lambda cut: (cut[0].name, cut[1].name)):
            insert_observer(self._prepared, value, call, owners[id(call)])


class _Watched(nn.Module):
    """An observer, and the range of one of the values that it observes, which contains zero."""

    def __init__(self, observer: Any) -> None:
        super().__init__()
        self.observer = observer
        self.range = (0.0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Observes the values of a tensor."""
        values = unmasked(x)
        if values.numel():
            low, high = (float(edge) for edge in torch.aminmax(values))
            self.range = (min(self.range[0], low), max(self.range[1], high))
        found: Tensor = self.observer(x)
        return found


def _has_one_range(call: Node) -> bool:
    return kind_of(call) in (Kind.SHARED, Kind.COMPARED) and annotation_of(call) is not None


def _call_of(observer: Node) -> Node:
    """Returns the call whose result, or one of them, an observer observes."""
    node = observer.args[0]
    assert isinstance(node, Node)
    return node.all_input_nodes[0] if node.target is python.getitem else node


def _parts(values: Iterable[Node], links: Iterable[_Link]) -> list[set[Node]]:
    """Returns the values and calls that links connect."""
    neighbors: dict[Node, list[Node]] = {node: [] for node in values}
    for value, call in links:
        neighbors[value].append(call)
        neighbors.setdefault(call, []).append(value)
    parts: list[set[Node]] = []
    for start in neighbors:
        if any(start in part for part in parts):
            continue
        part, waiting = set[Node](), [start]
        while waiting:
            node = waiting.pop()
            if node not in part:
                part.add(node)
                waiting += neighbors[node]
        parts.append(part)
    return parts
