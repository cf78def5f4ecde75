# SPDX-License-Identifier: Apache-2.0
"""Traces of decompositions in Python: each distinct call is traced once, and the trace is copied."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from delegatec.edge.builder import Builder
from delegatec.edge.legalize.recorder import NotRecordedError, record
from delegatec.edge.legalize.rules import FUNCTIONS, RULES, Function
from delegatec.edge.out_variants import out_variant
from delegatec.edge.signature import call_signature


@cache
def _torch_table() -> dict[Any, Any]:
    table: Any = core_aten_decompositions()
    return {
        op: function
        for op, function in table.items()
        if (out_variant(op) is None or op in RULES) and op not in FUNCTIONS
    }


@cache
def is_traced(target: OpOverload) -> bool:
    return target in FUNCTIONS or (out_variant(target) is None and _torch_decomposes(target))


@cache
def _torch_decomposes(target: OpOverload) -> bool:
    return target in _torch_table() or target in decomposition_table or target._can_decompose()


def _table_for(target: OpOverload) -> dict[Any, Any]:
    """Returns torch's decompositions to core ATen, and always that of `target`."""
    table = _torch_table()
    if target in table or target not in decomposition_table or out_variant(target) is not None:
        return table
    return {**table, target: decomposition_table[target]}


class Templates:
    """Traces of torch's decompositions, one per distinct call signature."""

    def __init__(self) -> None:
        self._traces: dict[Hashable, Graph | None] = {}
        # signatures of the calls that were decomposed to a node
        self._origins: dict[Node, frozenset[Hashable]] = {}

    def apply(self, builder: Builder, node: Node, function: Function | None) -> Any:
        """Computes `node` by a function of ours, or torch's decomposition; None if there is neither."""
        key = call_signature(node.target, node.args, node.kwargs)  # type: ignore[arg-type]
        origins = self._origins.get(node, frozenset())
        if key in origins:
            # some of torch's decompositions return the operator itself
            return None
        if key not in self._traces:
            self._traces[key] = _trace(builder, node, function)
        template = self._traces[key]
        if template is None or not _has_results(template, node):
            return None
        before = node.prev
        results = _instantiate(builder, node, template)
        while before.next is not node:
            before = before.next
            self._origins[before] = origins | {key}
        return results


def _has_results(template: Graph, node: Node) -> bool:
    """Whether a trace computes every used result of `node`; missing ones are None."""
    results: Any = template.output_node().args[0]
    return not isinstance(results, (tuple, list)) or all(
        results[user.args[1]] is not None  # type: ignore[index]
        for user in node.users
        if user.target is operator.getitem and user.users
    )


def _operands(node: Node) -> list[Node]:
    """Returns the nodes among a call's arguments, with duplicates."""
    found: list[Node] = []
    map_arg((node.args, node.kwargs), found.append)
    return found


def _trace(builder: Builder, node: Node, function: Function | None) -> Graph | None:
    """Returns the decomposition of one call, as a graph over its operands, or None."""
    target = node.target
    assert isinstance(target, OpOverload)

    def call(*operands: Any) -> Any:
        remaining = iter(operands)
        args, kwargs = map_arg((node.args, node.kwargs), lambda _: next(remaining))
        result = NotImplemented if function is None else function(*args, **kwargs)
        return target(*args, **kwargs) if result is NotImplemented else result

    with builder.fake_mode:
        # Operands from the same template share their value, and the tracer identifies tensors by identity: it
        # would mix them up.
        values = [_distinct(operand.meta["val"]) for operand in _operands(node)]
        try:
            graph = record(call, values, builder.fake_mode, _table_for(target))
        except NotRecordedError:
            graph = make_fx(call, decomposition_table=_table_for(target), tracing_mode="real")(*values).graph
        if any(operator.namespace == "prims" for operator in _operators(graph)):
            # torch's own primitives
            return None
        if any(operator._schema.is_mutable for operator in _operators(graph)):
            # some of torch's decompositions write in place
            functional = torch.func.functionalize(GraphModule({}, graph), remove="mutations")
            graph = make_fx(functional, tracing_mode="real")(*values).graph
            if any(operator._schema.is_mutable for operator in _operators(graph)):
                # it writes to an argument of the call
                return None
    graph.eliminate_dead_code()
    calls = [n for n in graph.nodes if n.op == "call_function"]
    if (len(calls) == 1 and calls[0].target is target) or any(n.op == "get_attr" for n in graph.nodes):
        return None
    return graph


def _distinct(value: Any) -> Any:
    """Returns another fake tensor like this one; other values unchanged."""
    if type(value) is FakeTensor and value.constant is None and not value._has_symbolic_sizes_strides:
        # what the mode does for detach, at a tenth of its cost
        with in_kernel_invocation_manager(value.fake_mode):
            return FakeTensor(value.fake_mode, value.detach(), value.fake_device)
    return value.detach() if isinstance(value, torch.Tensor) else value


def _operators(graph: Graph) -> list[OpOverload]:
    return [node.target for node in graph.nodes if isinstance(node.target, OpOverload)]


def _instantiate(builder: Builder, node: Node, template: Graph) -> Any:
    copies: dict[Node, Any] = dict(zip(template.find_nodes(op="placeholder"), _operands(node), strict=True))
    for source in template.nodes:
        # Calls without a value are checks, such as _linalg_check_errors.
        if source.op == "call_function" and "val" in source.meta:
            args, kwargs = map_arg((source.args, source.kwargs), copies.__getitem__)
            copies[source] = builder.call(source.target, *args, val=source.meta["val"], **kwargs)
    results = pytree.tree_map_only(Node, copies.__getitem__, template.output_node().args[0])
    return results
