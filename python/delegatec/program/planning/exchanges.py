# SPDX-License-Identifier: Apache-2.0
"""Tensors in the caller's memory that delegates exchange with their dimensions in the order of memory.

A permutation of such a tensor cannot be a view, as its address is unknown. But runtimes of delegates with
`orders_boundary` exchange bytes, so that the delegate's argument is the caller's tensor itself.
"""

from __future__ import annotations

import operator

from torch.fx import Node

from delegatec.delegation import LoweredModule, call_delegate
from delegatec.edge.dim_orders import caller_orders, reinterprets
from delegatec.edge.program import EdgeProgram
from delegatec.program.planning.instructions import Slot, slot_of


def exchanged_inputs(program: EdgeProgram) -> dict[Node, Node]:
    """Returns permutations of inputs that only such delegates read -> the inputs."""
    orders = caller_orders(program)
    return {
        user: node
        for node in orders
        if node.op == "placeholder"
        for user in node.users
        if reinterprets(user, orders) and all(_exchanges(program, each, user) for each in user.users)
    }


def exchanged_outputs(program: EdgeProgram) -> dict[Slot, Node]:
    """Returns results of such delegates whose only use is a permutation that is an output -> the output."""
    found: dict[Slot, Node] = {}
    orders = caller_orders(program)
    for node in orders:
        if not reinterprets(node, orders):
            continue
        (source,) = node.all_input_nodes
        if source.target is operator.getitem and list(source.users) == [node]:
            call = source.all_input_nodes[0]
            if _exchanges(program, call, source):
                found[slot_of(source)] = node
    return found


def _exchanges(program: EdgeProgram, call: Node, value: Node) -> bool:
    """Whether a call is of a delegate that exchanges the bytes of a value."""
    if call.target is not call_delegate:
        return False
    module = getattr(program.graph_module, str(call.all_input_nodes[0].target))
    return isinstance(module, LoweredModule) and module.orders_boundary(value.meta["val"])
