# SPDX-License-Identifier: Apache-2.0
"""The graphs that calls of control flow run, whose layers read weights of the graph around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from delegatec.edge.control_flow import FORMS, group, operands

# Key of a node's metadata: how often a run of the model runs it.
_RUNS: Final = "delegatec_runs"
_INHERITED: Final = ("stack_trace", "nn_module_stack")


@dataclass(frozen=True)
class Body:
    """A graph that one call runs.

    Attributes:
        call: a call of control flow in the graph of the model.
        module: the graph.
        others: other graphs that the call runs with the same operands, such as the second branch.
    """

    call: Node
    module: GraphModule
    others: tuple[GraphModule, ...]

    def outer(self, value: Any) -> Any:
        """Returns the operand of the call that an input of the graph is; other values as they are."""
        inputs = self.module.graph.find_nodes(op="placeholder")
        return operands(self.call)[inputs.index(value)] if value in inputs else value

    def inner(self, value: Node) -> Node:
        """Returns the input for a value of the model's graph, which becomes an operand of the call."""
        found = operands(self.call)
        if value not in found:
            position = FORMS[self.call.target].free
            self.call.update_arg(position, (*group(self.call, position), value))
            for module in (self.module, *self.others):
                last = module.graph.find_nodes(op="placeholder")[-1]
                with module.graph.inserting_after(last):
                    added = module.graph.placeholder(value.name)
                added.meta = {"val": value.meta["val"]}
            found = operands(self.call)
        node: Node = self.module.graph.find_nodes(op="placeholder")[found.index(value)]
        return node


def bodies_of(model: GraphModule, call: Node) -> list[Body]:
    """Returns the graphs that a node runs, without those that another node runs, too; none for most nodes."""
    form = FORMS.get(call.target)
    if form is None:
        return []
    attributes: list[Any] = [call.args[position] for position in form.bodies]
    modules = [model.get_submodule(str(each.target)) for each in attributes]
    graphs = tuple(each for each in modules if isinstance(each, GraphModule))
    if any(len(each.users) > 1 for each in attributes) or len({*graphs}) < len(attributes):
        return []
    return [Body(call, each, (*graphs[:index], *graphs[index + 1 :])) for index, each in enumerate(graphs)]


def all_nodes(model: GraphModule) -> Iterator[tuple[Node, Body | None]]:
    """Yields the nodes of a graph in order, each before those of its `bodies_of`."""
    for node in list(model.graph.nodes):
        yield node, None
        for body in bodies_of(model, node):
            yield from ((each, body) for each in list(body.module.graph.nodes))


def describe_bodies(model: GraphModule) -> None:
    """Gives calls in bodies the module and the line of the call that runs them, and how often it does."""
    for module in model.modules():
        if isinstance(module, GraphModule):
            # torch.export renames inputs without updating the namespace of the graph
            names = {node.name for node in module.graph.nodes}
            module.graph._graph_namespace._used_names.update(names)
    for node, body in all_nodes(model):
        if body is not None and node.op == "call_function":
            node.meta[_RUNS] = _runs(body.call)
            for key in _INHERITED:
                if key in body.call.meta:
                    node.meta.setdefault(key, body.call.meta[key])


def runs_of(node: Node) -> int:
    """Returns how often a run of the model runs a call, after `describe_bodies`: 1 if nothing says more."""
    runs: int = node.meta.get(_RUNS, 1)
    return runs


def _runs(call: Node) -> int:
    """Returns the rows of sliced operands; of a dynamic number, that of the example."""
    for operand in group(call, FORMS[call.target].sliced):
        size = operand.meta["val"].shape[0]
        return size if isinstance(size, int) else int(size.node.hint or 1)
    return 1


def remove_unread_operands(model: GraphModule) -> None:
    """Removes operands that no body reads, such as weights in float that are stored quantized, in place."""
    for call in model.graph.nodes:
        bodies = bodies_of(model, call)
        if not bodies:
            continue
        position = FORMS[call.target].free
        modules = [body.module for body in bodies]
        inputs = [module.graph.find_nodes(op="placeholder") for module in modules]
        kept, first = [], len(operands(call)) - len(group(call, position))
        for operand, *same in zip(group(call, position), *(each[first:] for each in inputs), strict=True):
            if any(each.users for each in same) or not isinstance(operand, Node):
                kept.append(operand)
                continue
            for module, each in zip(modules, same, strict=True):
                module.graph.erase_node(each)
        call.update_arg(position, tuple(kept))
        for module in modules:
            module.graph.eliminate_dead_code()
            module.recompile()


def separate_carried_operands(model: GraphModule) -> None:
    """Copies constants that loops start with, in place.

    torch.export knows the inputs of a body by the identity of their operands: those that are one tensor, as
    equal constants are, would become one input.
    """
    for call in list(model.graph.nodes):
        form = FORMS.get(call.target)
        if form is None or form.carried is None:
            continue
        started = []
        for operand in group(call, form.carried):
            is_shared = operand.op == "get_attr" or operands(call).count(operand) > 1
            if is_shared and isinstance(operand.meta.get("val"), torch.Tensor):
                with model.graph.inserting_before(call):
                    copy = model.graph.call_function(torch.ops.aten.clone.default, (operand,))
                copy.meta = dict(operand.meta)
                operand = copy
            started.append(operand)
        call.update_arg(form.carried, started)
    model.recompile()
