# SPDX-License-Identifier: Apache-2.0
"""The layers that a search keeps in float: calls that are in integers together, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.multiplications import elements_of, multiplications_of
from delegatec.quantize.decompose.decompositions import composite_of
from delegatec.quantize.graph.bodies import runs_of
from delegatec.quantize.graph.calls import call_of
from delegatec.quantize.loops.order import BORDERS
from delegatec.quantize.operators import Kind, kind_of

# The operator that names a layer of several calls, the first kind first.
_NAMING: Final = (Kind.LAYER, Kind.PRODUCT, Kind.SUM, Kind.OWN)
_BITS: Final = {"int8": 8, "int4": 4, "float16": 16}


@dataclass(frozen=True)
class Weight:
    """A weight of a layer.

    Attributes:
        name: its name; several layers may have one.
        float_bytes: its size in float32.
        integer_bytes: its size quantized, with scales.
    """

    name: str
    float_bytes: int
    integer_bytes: int

    @staticmethod
    def of(name: str, elements: int, dtype: str, scales: int) -> Weight:
        """Returns a weight by its number of elements, quantized dtype, and number of scales."""
        return Weight(name, 4 * elements, (elements * _BITS[dtype] + 7) // 8 + 4 * scales)


@dataclass(frozen=True)
class Unit:
    """A layer: a call with its bias, batch norm and activation, or those of a softmax, attention or norm.

    Attributes:
        calls: their marks (`quantize.calls`).
        module: path of the module; "" for the model itself.
        operator: the main operator, such as "aten.linear".
        trace: the stack trace of its main call; "" for none.
        operations: multiplications of layers and products, and elements that others compute.
        weights: its weights.
    """

    calls: frozenset[int]
    module: str
    operator: str
    trace: str
    operations: int
    weights: tuple[Weight, ...] = ()


def grouped(calls: Iterable[Node], producers: Mapping[Node, Node]) -> list[list[Node]]:
    """Returns the calls of each unit, in the order of the graph.

    Args:
        calls: quantized calls.
        producers: call -> the quantized call whose unit it belongs to: the one that it is fused with, or
            whose result it moves.
    """
    groups: dict[Any, list[Node]] = {}
    group_of: dict[Node, list[Node]] = {}
    for node in calls:
        composite, producer = composite_of(node), producers.get(node)
        mark = call_of(node)
        if composite is None and producer in group_of:
            group = group_of[producer]
        else:
            group = groups.setdefault(composite if composite is not None else mark, [])
        group.append(node)
        group_of[node] = group
    return [group for group in groups.values() if group]


def unit_of(calls: list[Node], weights: Iterable[Weight] = ()) -> Unit:
    """Returns the description of calls.

    Args:
        calls: those of one unit, in the order of the graph.
        weights: as in `Unit`.
    """
    main = min(calls, key=_rank)
    composite = composite_of(main)
    operator = composite.partition(" ")[2] if composite else _name(main)
    modules = [str(path) for path, _ in main.meta.get("nn_module_stack", {}).values()]
    marks = frozenset(mark for node in calls if (mark := call_of(node)) is not None)
    return Unit(
        marks,
        modules[-1] if modules else "",
        operator,
        str(main.meta.get("stack_trace") or ""),
        sum(map(operations_of, calls)),
        tuple(weights),
    )


def weight_bytes(units: Sequence[Unit], in_float: Collection[int]) -> int:
    """Returns the size of all weights; one that layers of both kinds have is stored twice."""
    stored = {
        (weight.name, index in in_float): weight.float_bytes if index in in_float else weight.integer_bytes
        for index, unit in enumerate(units)
        for weight in unit.weights
    }
    return sum(stored.values())


def operations_of(node: Node) -> int:
    """Returns the multiplications of a layer or product, and else the elements of a float result.

    Moves, and the choice of values, do not count.
    """
    kind = kind_of(node)
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return 0
    if kind in (Kind.SHARED, Kind.PRODUCED):
        return 0
    return runs_of(node) * (multiplications_of(node) or elements_of(value))


def _name(node: Node) -> str:
    return "scan" if node.target in BORDERS else str(node.target).rpartition(".")[0]


def _rank(node: Node) -> int:
    kind = kind_of(node)
    return _NAMING.index(kind) if kind in _NAMING else len(_NAMING)
