# SPDX-License-Identifier: Apache-2.0
"""Ranges of values of which a mask selects some: the others do not count.

In `torch.where(x > 0, x, x.exp() - 1)`, the exponentials of positive values would decide the range, in which
those of negative ones are one value. Values beyond the range are not selected, so that they may be cut off.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from delegatec.quantize.annotate.observers import unmasked
from delegatec.quantize.graph.constants import unused_name

aten = torch.ops.aten

# Masks, and whether they select the elements where they are true. An element is selected by all of them.
_Masks = tuple[tuple[Node, bool], ...]

# Operator -> the positions of its mask and of its operands, and whether the mask selects their elements.
_SELECTIONS: Final[dict[Any, tuple[int, dict[int, bool]]]] = {
    aten.where.self: (0, {1: True, 2: False}),
    aten.masked_fill.Scalar: (1, {0: False}),
}


class SelectedRanges:
    """Lets observers of values that are only read through a mask observe selected elements.

    Args:
        prepared: a graph with observers, which have observed nothing yet.
    """

    def __init__(self, prepared: GraphModule) -> None:
        self._prepared = prepared
        self._modules = dict(prepared.named_modules(remove_duplicate=False))
        self._waiting: dict[Node, _Waiting] = {}
        self._observing: list[Node] = []
        # of nested calls, the outer one first
        for call in reversed(prepared.graph.nodes):
            for masks, values in self._only_for(call).items():
                self._observe(call, masks, values)
        prepared.recompile()

    def finish(self) -> None:
        """Restores the graph, in place; a range of which no value was selected is that of all."""
        for node in self._observing:
            self._prepared.graph.erase_node(node)
            self._prepared.delete_submodule(str(node.target))
        for node, waiting in self._waiting.items():
            waiting.finish()
            self._prepared.set_submodule(str(node.target), waiting.observer)
        self._prepared.recompile()

    def _only_for(self, call: Node) -> dict[_Masks, list[Node]]:
        """Returns masks of a call -> observers of values that only this call reads.

        Each element of these values is for one element of the result.
        """
        found: dict[_Masks, list[Node]] = {}
        waiting: list[tuple[Node, Node, _Masks]]
        waiting = [(operand, call, (mask,)) for operand, mask in _selections(call)]
        while waiting:
            value, user, masks = waiting.pop()
            if not _is_only_for(value, user, call):
                continue
            source = value
            if str(value.target) in self._modules and value not in self._waiting:
                (source,) = value.all_input_nodes
                if not _is_only_for(source, value, call):
                    continue
                found.setdefault(masks, []).append(value)
            inner = [(operand, source, (*masks, mask)) for operand, mask in _selections(source)]
            waiting += inner or [(each, source, masks) for each in _pointwise_operands(source)]
        return found

    def _observe(self, call: Node, masks: _Masks, values: list[Node]) -> None:
        for value in values:
            self._waiting[value] = waiting = _Waiting(self._modules[str(value.target)])
            self._prepared.set_submodule(str(value.target), waiting)
        name = unused_name(self._prepared, "selected_0")
        observers = [self._waiting[value] for value in values]
        self._prepared.add_submodule(name, _Selected(observers, [is_selected for _, is_selected in masks]))
        operands = (*(mask for mask, _ in masks), *values)
        with self._prepared.graph.inserting_before(call):
            self._observing.append(self._prepared.graph.call_module(name, operands))


class _Waiting(nn.Module):
    """An observer that does not observe what it is called with, but elements that are selected later."""

    def __init__(self, observer: Any) -> None:
        super().__init__()
        self.observer = observer
        self._ends: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """Returns a tensor without -inf, as observers do."""
        values = unmasked(x)
        if values.numel():
            self._ends = [*torch.aminmax(torch.cat([values.flatten(), *(each[None] for each in self._ends)]))]
        return x.clamp_min(torch.finfo(x.dtype).min)

    def observe(self, x: Tensor) -> None:
        """Observes selected elements."""
        if x.numel():
            self.observer(x)

    def finish(self) -> None:
        """Observes the ends of the range of all elements if the observer has observed nothing."""
        observer = getattr(self.observer, "observer", self.observer)
        if self._ends and not bool(observer.min_val.isfinite()):
            self.observer(torch.stack(self._ends))


class _Selected(nn.Module):
    """Passes the elements that all masks select to observers."""

    def __init__(self, observers: list[_Waiting], are_selected: list[bool]) -> None:
        super().__init__()
        self._observers = observers
        self._are_selected = are_selected

    def forward(self, *operands: Tensor) -> None:
        """Observes elements of values of one shape, which follow the masks."""
        count = len(self._are_selected)
        values = operands[count:]
        selected = torch.ones_like(values[0], dtype=torch.bool)
        for mask, is_selected in zip(operands, self._are_selected, strict=False):
            selected = selected & (mask if is_selected else ~mask)
        for observer, value in zip(self._observers, values, strict=True):
            observer.observe(value[selected])


def _selections(call: Node) -> list[tuple[Node, tuple[Node, bool]]]:
    """Returns the operands of which a mask of a call selects elements, and how."""
    mask, operands = _SELECTIONS.get(call.target, (0, {}))
    chosen = call.args[mask] if operands else None
    return [
        (operand, (chosen, is_selected))
        for operand, is_selected in ((call.args[position], each) for position, each in operands.items())
        if isinstance(operand, Node) and isinstance(chosen, Node)
    ]


def _pointwise_operands(call: Node) -> list[Node]:
    target = call.target
    is_pointwise = isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
    return call.all_input_nodes if is_pointwise else []


def _is_only_for(value: Node, user: Node, call: Node) -> bool:
    """Whether nothing but a user reads a value, which has the shape of the result of a call."""
    return [*value.users] == [user] and _shape(value) == _shape(call)


def _shape(node: Node) -> list[str] | None:
    """Returns the shape of a node; that of the observed value for an observer."""
    source = node.args[0] if node.op == "call_module" else node
    val = source.meta.get("val") if isinstance(source, Node) else None
    return [str(size) for size in val.shape] if isinstance(val, Tensor) else None
