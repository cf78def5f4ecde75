# SPDX-License-Identifier: Apache-2.0
"""Calls that compute with NaN or infinities of inputs, such as missing values: they stay in float.

No quantized value stands for NaN: `torch.nan_to_num(x)` of quantized values would replace nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from delegatec.edge.arguments import bind
from delegatec.quantize.graph.calls import call_of
from delegatec.quantize.inputs import Sample
from delegatec.quantize.loops.order import called

aten = torch.ops.aten

_COMPARISONS: Final = frozenset({aten.eq.Scalar, aten.ne.Scalar})
_OF_ITSELF: Final = frozenset({aten.eq.Tensor, aten.ne.Tensor})
# Every eighth element is missing in a sample of which none is.
_MISSING: Final = 8


def calls_of_missing_values(graph: GraphModule, samples: Sequence[Sample]) -> frozenset[int]:
    """Returns the marks of the calls that read or return NaN in a sample with NaN or infinities.

    So do those of infinities that the graph compares with infinity; others saturate, such as masks. If all
    samples are finite, the first is run with NaN among the elements of inputs that the graph compares with
    NaN; a graph that returns NaN then does not replace it, and keeps nothing in float.

    Args:
        graph: a graph without observers, whose calls are marked; its buffers are as before.
        samples: the arguments of its calls.

    A sample that the model fails on is skipped here: observation reports it.
    """
    several = [sample for sample in samples if not _is_finite(pytree.tree_leaves(sample))]
    is_tested = not several and (tested := _tested_inputs(graph))
    if is_tested:
        several = [_with_nan(samples[0], tested)]
    if not several:
        return frozenset()
    run = _Run(graph)
    buffers = [(buffer, buffer.clone()) for buffer in graph.buffers()]
    try:
        for sample in several:
            arguments, keywords = pytree.tree_map_only(Tensor, Tensor.clone, sample)
            try:
                results = called(graph, arguments, keywords, run)
            except Exception:  # noqa: BLE001 - the model's own; a model may also reject NaN
                continue
            if is_tested and not _is_finite(pytree.tree_leaves(results)):
                return frozenset()
    finally:
        for buffer, value in buffers:
            buffer.copy_(value)
    nodes = run.with_nan | _compared(run.with_infinities)
    calls = nodes.union(*(node.users for node in nodes))
    return frozenset(mark for node in calls if (mark := call_of(node)) is not None)


def _tested_inputs(graph: GraphModule) -> list[int]:
    """Returns the positions of inputs that are compared with NaN, perhaps after calls of one value."""
    found = set[Node]()
    for node in graph.graph.nodes:
        if node.target is aten.isnan.default or (node.target in _OF_ITSELF and node.args[0] is node.args[1]):
            while len(node.all_input_nodes) == 1:
                (node,) = node.all_input_nodes
            found.add(node)
    return [
        position for position, node in enumerate(graph.graph.find_nodes(op="placeholder")) if node in found
    ]


def _with_nan(sample: Sample, positions: Collection[int]) -> Sample:
    leaves, spec = pytree.tree_flatten(sample)
    for position in positions:
        if _is_float(leaves[position]):
            values = leaves[position].clone(memory_format=torch.contiguous_format)
            values.view(-1)[::_MISSING] = math.nan
            leaves[position] = values
    found: Sample = pytree.tree_unflatten(leaves, spec)
    return found


class _Run(Interpreter):
    """Runs a graph, and keeps the nodes with values that are not finite."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.with_nan: set[Node] = set()
        self.with_infinities: set[Node] = set()

    def run_node(self, n: Node) -> Any:
        """See `Interpreter.run_node`."""
        result = super().run_node(n)
        if n.op != "output":
            values = [each for each in pytree.tree_leaves(result) if _is_float(each)]
            if any(bool(each.isnan().any()) for each in values):
                self.with_nan.add(n)
            if any(bool(each.isinf().any()) for each in values):
                self.with_infinities.add(n)
        return result


def _compared(nodes: Collection[Node]) -> set[Node]:
    """Returns the values that are compared with infinity, and those next to them, up to finite ones."""
    pending = [node for node in nodes if any(map(_is_comparison, node.users))]
    found = set(pending)
    while pending:
        node = pending.pop()
        for each in (*node.all_input_nodes, *node.users):
            if each in nodes and each not in found:
                found.add(each)
                pending.append(each)
    return found


def _is_comparison(node: Node) -> bool:
    if node.target is aten.isinf.default:
        return True
    return node.target in _COMPARISONS and math.isinf(bind(node)["other"])


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_finite(values: Iterable[Any]) -> bool:
    return all(bool(each.isfinite().all()) for each in values if _is_float(each))
