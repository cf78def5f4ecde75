# SPDX-License-Identifier: Apache-2.0
"""Switches of a graph with observers: values are quantized by observed ranges, or not."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node, map_arg
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize

from delegatec.quantize.annotate.quantizer import annotation_of
from delegatec.quantize.graph.constants import getattr_of
from delegatec.quantize.loops.order import EXITS, Loop, carry_of, run_loop, scheduled, state
from delegatec.quantize.operators import ACCUMULATES, Kind, kind_of
from delegatec.quantize.settings import Settings
from delegatec.quantize.switches.switched import Leaves, Source
from delegatec.quantize.switches.units import Unit, Weight, grouped, operations_of, unit_of

# Of values that are kept while sources of error are measured one by one: then only calls after one are run.
_MOST_BYTES: Final = 1 << 30

# Whether an observer quantizes the value that a call reads.
_Switch = Callable[[Node, Node], bool]
# A value, and the observers that quantize it on the way to a call.
_Read = tuple[Node, tuple[Node, ...]]


class SwitchedGraph:
    """Switches of a graph with observers, which have observed all samples.

    The ranges are those of the model that is quantized whole. If some layers are in float, values that share
    a range with theirs may have a narrower one in the result: so a choice is measured there again.

    Args:
        prepared: the graph; its tensors and observers are kept, its calls are copied.
        settings: how it is quantized.
    """

    def __init__(self, prepared: GraphModule, settings: Settings) -> None:
        graph = copy.deepcopy(prepared.graph)
        modules = dict(prepared.named_modules(remove_duplicate=False))
        self._nodes = list(graph.nodes)
        self._constants = {node: getattr_of(prepared, node) for node in self._nodes if node.op == "get_attr"}
        self._observers = {
            node: modules[str(node.target)] for node in self._nodes if node.op == "call_module"
        }
        for node in self._observers:
            node.meta["val"] = node.args[0].meta.get("val")
        self._items = [*self._scheduled()]
        loops = [each for each in self._items if isinstance(each, Loop)]
        self._in_loops = frozenset(node for each in loops for node in each.nodes if node.target not in EXITS)
        self._quantized_constants: dict[_Read, Tensor] = {}
        # The range of a histogram is a search: values with one range have one observer.
        ranges = {id(each): _Range.of(each) for each in self._observers.values() if not _is_bias(each)}
        self._ranges = {node: ranges.get(id(each)) for node, each in self._observers.items()}
        calls = [node for node in self._nodes if node.op == "call_function" and annotation_of(node)]
        # The state of a loop is in the layer that computes its next value.
        calls.sort(key=lambda node: node.target is state)
        groups = grouped(calls, self._producers(calls))
        self._unit_of = {node: index for index, group in enumerate(groups) for node in group}
        self.units: tuple[Unit, ...] = tuple(
            unit_of(group, self._weights(group, settings)) for group in groups
        )
        self.operations = sum(map(operations_of, self._nodes))
        self.fixed = self._at_boundary() if settings.quantize_io else frozenset[int]()
        # A source -> the observers that are switched on for it.
        self._switched = self._sources()
        self.sources = tuple(Source(units) for units in self._switched)

    def outputs(self, inputs: Sequence[Any], in_float: Collection[int]) -> Leaves:
        """See `Switched`."""
        chosen = frozenset(in_float)
        return self._run(inputs, lambda observer, user: self._is_on(observer, user, chosen), None)[0]

    def disturbed(self, samples: Sequence[Sequence[Any]]) -> Iterator[list[Leaves]]:
        """See `Switched`."""
        exact = [self._run(inputs, lambda observer, user: False, None, keep=True) for inputs in samples]
        yield [leaves for leaves, _ in exact]
        for switched in self._switched.values():
            is_on = _among(switched)
            yield [
                self._run(inputs, is_on, values)[0]
                for inputs, (_, values) in zip(samples, exact, strict=True)
            ]

    def _scheduled(self) -> Iterator[Node | Loop]:
        """Yields the calls and loops that are run, without observers."""
        for each in scheduled(self._nodes):
            if isinstance(each, Loop):
                yield Loop(each.number, tuple(node for node in each.nodes if node not in self._observers))
            elif each not in self._observers:
                yield each

    # ---- layers --------------------------------------------------------------------------------------------

    def _raw(self, node: Node) -> Node:
        """Returns the node whose value observers pass on."""
        while node in self._observers:
            node = node.args[0]  # type: ignore[assignment]
        return node

    def _producers(self, calls: Sequence[Node]) -> dict[Node, Node]:
        """Returns call -> the call that it is fused with, or whose result it moves."""
        found: dict[Node, Node] = {}
        for node in calls:
            if node.target is state:
                end = carry_of(node)
                found[node] = found.get(end, end)
                continue
            operands = [self._raw(each) for each in node.all_input_nodes]
            floats = [each for each in operands if _is_float(each) and annotation_of(each)]
            # a part of a call with several results has no kind
            is_moved = kind_of(node) in (Kind.SHARED, None)
            if len(operands) == 1 and floats and (is_moved or _is_fused(floats[0])):
                found[node] = floats[0]
        return found

    def _weights(self, group: Sequence[Node], settings: Settings) -> Iterator[Weight]:
        for node in group:
            for observer in node.all_input_nodes if kind_of(node) in (Kind.LAYER, Kind.SHARED) else ():
                raw = self._raw(observer)
                value = self._constants.get(raw)
                found = self._ranges.get(observer)
                if found is None or not isinstance(value, Tensor):
                    continue
                dtype = settings.weight if kind_of(node) is Kind.LAYER else "int8"
                yield Weight.of(str(raw.target), value.numel(), dtype, found.scale.numel())

    def _at_boundary(self) -> frozenset[int]:
        """Returns the layers that read a float input, or compute an output: they are quantized values."""
        found = set()
        for node in self._nodes:
            operands = [self._raw(each) for each in node.all_input_nodes]
            if node.op == "output":
                found |= {self._unit_of[each] for each in operands if each in self._unit_of}
            elif node in self._unit_of and any(
                each.op == "placeholder" and _is_float(each) for each in operands
            ):
                found.add(self._unit_of[node])
        return frozenset(found)

    def _sources(self) -> dict[frozenset[int], set[tuple[Node, Node]]]:
        """Returns layers -> the observers, and the calls that read them, which end if all are in float."""
        # Values that moves pass on are quantized once: they have the same range.
        values: dict[Any, tuple[set[int], set[tuple[Node, Node]]]] = {}
        for user in self._nodes:
            for observer in user.all_input_nodes:
                if user in self._observers or observer not in self._observers:
                    continue
                raw = self._raw(observer)
                origin: Any = self._origin(raw)
                if raw.op == "get_attr":
                    if user not in self._unit_of or _is_bias(self._observers[observer]):
                        continue
                    origin = (raw, self._unit_of[user])
                units, edges = values.setdefault(origin, (set(), set()))
                units |= {self._unit_of[node] for node in (raw, origin, user) if node in self._unit_of}
                edges.add((observer, user))
                while (observer := observer.args[0]) in self._observers:
                    edges.add((observer, user))
        found: dict[frozenset[int], set[tuple[Node, Node]]] = {
            frozenset({index}): set() for index in range(len(self.units))
        }
        for units, edges in values.values():
            if units:
                found.setdefault(frozenset(units), set()).update(edges)
        return {units: edges for units, edges in found.items() if edges}

    def _origin(self, node: Node) -> Node:
        """Returns the call whose result a chain of moves in its layer passes on."""
        while kind_of(node) is Kind.SHARED and len(node.all_input_nodes) == 1:
            operand = self._raw(node.all_input_nodes[0])
            if self._unit_of.get(operand) != self._unit_of.get(node):
                break
            node = operand
        return node

    # ---- runs ----------------------------------------------------------------------------------------------

    def _is_on(self, observer: Node, user: Node, in_float: frozenset[int]) -> bool:
        """Whether an observer quantizes what a call reads."""
        producer = observer.args[0]
        assert isinstance(producer, Node)
        if producer.op == "placeholder":
            users = (each for node in producer.users for each in node.users if node in self._observers)
            return any(self._unit_of.get(each, -1) not in in_float for each in users if each in self._unit_of)
        annotation = annotation_of(producer) if producer in self._unit_of else None
        if annotation and annotation.output_qspec is not None and self._unit_of[producer] not in in_float:
            return True
        is_read = observer in user.all_input_nodes and user in self._unit_of
        return is_read and self._unit_of[user] not in in_float

    def _read(self, node: Node, user: Node, is_on: _Switch) -> _Read:
        chain: list[Node] = []
        while node in self._observers:
            if self._ranges[node] is not None and is_on(node, user):
                chain.append(node)
            node = node.args[0]  # type: ignore[assignment]
        return node, tuple(reversed(chain))

    def _run(
        self,
        inputs: Sequence[Any],
        is_on: _Switch,
        known: dict[Node, Any] | None,
        keep: bool = False,
    ) -> tuple[Leaves, dict[Node, Any] | None]:
        """Runs the graph.

        Args:
            inputs: those of the method.
            is_on: the observers that quantize.
            known: the values of a run without any, if they are kept: only calls after a quantized value run.
            keep: whether to return all values, if they are not too large.

        Returns:
            The outputs, and the values.
        """
        values: dict[Node, Any] = {}
        quantized: dict[_Read, Tensor] = {}
        leaves, size = iter(inputs), 0
        ends = {} if keep else self._ends()

        def load(node: Node, user: Node) -> Any:
            raw, chain = self._read(node, user, is_on)
            value = values[raw] if raw in values or known is None else known[raw]
            for count in range(1, len(chain) + 1):
                if raw in self._in_loops:  # it has another value in each step
                    value = self._quantized(chain[count - 1], value)
                    continue
                key = (raw, chain[:count])
                stored = self._quantized_constants if raw in self._constants else quantized
                if key not in stored:
                    stored[key] = self._quantized(chain[count - 1], value)
                value = stored[key]
            return value

        def is_known(nodes: Iterable[Node]) -> bool:
            reads = (self._read(each, node, is_on) for node in nodes for each in node.all_input_nodes)
            return known is not None and not any(chain or raw in values for raw, chain in reads)

        def arguments_of(node: Node) -> tuple[Any, Any]:
            return map_arg((node.args, node.kwargs), functools.partial(load, user=node))

        def run(node: Node) -> Any:
            arguments, keywords = arguments_of(node)
            return node.target(*arguments, **keywords)  # type: ignore[operator]

        with torch.no_grad():
            for item in self._items:
                nodes = item.nodes if isinstance(item, Loop) else (item,)
                if isinstance(item, Loop):
                    if not is_known(nodes):
                        run_loop(item, values, load, run)
                elif item.op == "output":
                    return pytree.tree_leaves(arguments_of(item)), None if size > _MOST_BYTES else values
                elif item.op == "call_function":
                    if not is_known(nodes):
                        values[item] = run(item)
                else:
                    value = next(leaves) if item.op == "placeholder" else self._constants[item]
                    if known is None:
                        values[item] = value
                if keep:
                    size += sum(values[each].nbytes for each in nodes if isinstance(values[each], Tensor))
                for each in ends.get(item, ()):
                    values.pop(each, None)
                    for key in [key for key in quantized if key[0] is each]:
                        del quantized[key]
        raise AssertionError("a graph has an output")

    def _quantized(self, observer: Node, value: Tensor) -> Tensor:
        found = self._ranges[observer]
        assert found is not None
        return found.quantized(value)

    def _ends(self) -> dict[Node | Loop, list[Node]]:
        """Returns call or loop -> the values that none after it reads."""
        last: dict[Node, Node | Loop] = {}
        for item in self._items:
            for node in item.nodes if isinstance(item, Loop) else (item,):
                last.update((self._raw(operand), item) for operand in node.all_input_nodes)
        found: dict[Node | Loop, list[Node]] = {}
        for value, item in last.items():
            if value.op == "call_function":
                found.setdefault(item, []).append(value)
        return found


def _among(edges: Collection[tuple[Node, Node]]) -> _Switch:
    return lambda observer, user: (observer, user) in edges


@dataclass(frozen=True)
class _Range:
    """The range of a value, as `fake_quantize` takes it; `axis` is that of channels, or None."""

    scale: Tensor
    zero_point: Tensor
    limits: tuple[int, int]
    axis: int | None

    @staticmethod
    def of(observer: Any) -> _Range:
        """Returns the range that an observer has observed."""
        scale, zero_point = observer.calculate_qparams()
        is_per_channel = observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine)
        axis = observer.ch_axis if is_per_channel else None
        return _Range(scale, zero_point.to(torch.int32), (observer.quant_min, observer.quant_max), axis)

    def quantized(self, value: Tensor) -> Tensor:
        """Returns the values that a tensor has after it is quantized."""
        if self.axis is None:
            return torch.fake_quantize_per_tensor_affine(value, self.scale, self.zero_point, *self.limits)
        return torch.fake_quantize_per_channel_affine(
            value, self.scale, self.zero_point, self.axis, *self.limits
        )


def _is_bias(observer: Any) -> bool:
    """Whether it is of an int32 constant, whose error is small."""
    return isinstance(observer, DerivedObserverOrFakeQuantize)


def _is_fused(node: Node) -> bool:
    annotation = annotation_of(node)
    return kind_of(node) in ACCUMULATES and annotation is not None and annotation.output_qspec is None


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return (isinstance(value, Tensor) and value.dtype is torch.float32) or isinstance(value, (tuple, list))
