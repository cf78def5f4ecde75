# SPDX-License-Identifier: Apache-2.0
"""Replaces partitions by delegates in the owner's graph, without retracing it."""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torch.fx import Graph, Node
from torch.fx.node import map_arg

from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.delegation.delegates.lowered_module import LoweredModule
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar


def schedule(graph: Graph, groups: Sequence[Sequence[Node]]) -> list[Node] | None:
    """Returns an order of the nodes in which every group is contiguous.

    Args:
        graph: the graph, in topological order.
        groups: disjoint groups of its nodes.

    Returns:
        All nodes, as close to the graph's own order as the groups allow; None if there is no such
        order, because a group depends on itself.
    """
    nodes = list(graph.nodes)
    block_of: dict[Node, int] = {}
    members: dict[int, list[Node]] = {}
    owner = {node: group[-1] for group in groups for node in group}
    position = {node: index for index, node in enumerate(nodes)}
    for index, node in enumerate(nodes):
        block = position[owner[node]] if node in owner else index
        block_of[node] = block
        members.setdefault(block, []).append(node)
    waiting = dict.fromkeys(members, 0)
    users_of: dict[int, list[int]] = {block: [] for block in members}
    for node in nodes:
        for source in node.all_input_nodes:
            if block_of[source] != block_of[node]:
                users_of[block_of[source]].append(block_of[node])
                waiting[block_of[node]] += 1
    ready = [block for block, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        block = heapq.heappop(ready)
        order += members[block]
        for user_block in users_of[block]:
            waiting[user_block] -= 1
            if waiting[user_block] == 0:
                heapq.heappush(ready, user_block)
    return order if len(order) == len(nodes) else None


def reorder(order: Sequence[Node]) -> None:
    """Reorders the nodes of a graph; `order` contains all of them."""
    for before, after in itertools.pairwise(order):
        if before.next is not after:
            before.append(after)


def free_names(program: EdgeProgram) -> Iterator[str]:
    """Yields unused names for delegates, "lowered_0", "lowered_1" etc., in the program and its bodies."""
    owners = [part.graph_module for part in program.walk()]
    taken = {
        name
        for owner in owners
        for names in (vars(owner), owner._modules, owner._buffers, owner._parameters)
        for name in names
    }
    return (name for name in map("lowered_{}".format, itertools.count()) if name not in taken)


def splice(program: EdgeProgram, view: PartitionView, lowered: LoweredModule, name: str) -> dict[str, str]:
    """Replaces a partition by a call of its delegate.

    Its nodes are contiguous in the graph, except for those that compute scalars, which stay if they have
    other users. Uses of the partition's outputs become uses of `getitem` nodes of the call.
    `EdgeProgram.erase_unused_placeholders` removes constants that become unused.

    Args:
        program: the owner, edited in place, without its `output_specs` (see `rename_outputs`).
        view: the partition.
        lowered: its delegate.
        name: the delegate's attribute in the owner.

    Returns:
        Name of each output of the partition -> name of the node that replaces it.
    """
    graph = program.graph
    lowered.name = name
    program.graph_module.add_submodule(lowered.name, lowered)
    contiguous = [node for node in view.nodes if not is_scalar(node)]
    first, last = contiguous[0], contiguous[-1]
    with graph.inserting_after(last):
        delegate = graph.create_node("get_attr", lowered.name, name=lowered.name)
    delegate.meta.update(source=None, debug_handle=first.meta.get("debug_handle", 1))
    with graph.inserting_after(delegate):
        call = graph.create_node(
            "call_function", call_delegate, (delegate, *view.inputs), name="call_delegate"
        )
    call.meta.update(
        val=tuple(node.meta["val"] for node in view.outputs),
        source=first.meta.get("source"),
        debug_handle=first.meta.get("debug_handle", 1),
        debug_handles=lowered.debug_handles,
    )
    replaced: dict[Node, Node] = {}
    after = call
    for index, old in enumerate(view.outputs):
        with graph.inserting_after(after):
            new = graph.call_function(operator.getitem, (call, index))
        new.meta.update(
            val=old.meta["val"], source=old.meta.get("source"), debug_handle=old.meta.get("debug_handle", 1)
        )
        replaced[old] = new
        after = new
    # Once per user: one user, such as the output, may use all of them.
    members = set(view.nodes)
    for user in dict.fromkeys(user for old in view.outputs for user in old.users if user not in members):
        user.args = map_arg(user.args, lambda node: replaced.get(node, node))
        user.kwargs = map_arg(user.kwargs, lambda node: replaced.get(node, node))
    renamed = {old.name: new.name for old, new in replaced.items()}
    for node in reversed(view.nodes):
        if not is_scalar(node) or not node.users:
            graph.erase_node(node)
    for body in view.bodies:
        graph.erase_node(body)
    program.erase_unused_bodies()
    return renamed


def rename_outputs(program: EdgeProgram, renamed: Mapping[str, str]) -> None:
    """Renames nodes in `output_specs`.

    Args:
        program: edited in place.
        renamed: old name -> new name.
    """
    for index, spec in enumerate(program.output_specs):
        new = renamed.get(getattr(spec.arg, "name", None) or "")
        if new is not None:
            program.output_specs[index] = replace(spec, arg=replace(spec.arg, name=new))
