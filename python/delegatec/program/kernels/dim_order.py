# SPDX-License-Identifier: Apache-2.0
"""Copies of inputs and outputs whose dim order is not row-major."""

from __future__ import annotations

from typing import Any, Final

from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.dim_orders import REORDERS, DimOrder, caller_orders, reinterprets
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic
from delegatec.program.planning.exchanges import exchanged_inputs

# The kernel of REORDERS: (self, non_blocking, dim_order, *, out). `aten::clone.out`, `aten::copy_` and
# `aten::_to_copy.out` reject tensors of different orders (ExecuTorch 1.4.1, measured).
REORDER: Final = ("dim_order_ops::_to_dim_order_copy", "out")


def reorder_boundary(program: EdgeProgram, *, plan_inputs: bool = True) -> None:
    """Copies inputs to row-major order and outputs from it, unless a permutation does without a copy.

    It runs after delegation and after all rewrites: kernels support one order only. A permutation of an
    input to the order of its bytes is a view, as is one to the order of an output's.

    Args:
        program: the method, edited in place; a second run changes nothing.
        plan_inputs: whether inputs are in planned memory: others have no views.
    """
    builder = Builder(program)
    _reorder_outputs(program, builder)
    exchanged = exchanged_inputs(program)
    orders, mutated = caller_orders(program), program.mutated_inputs()
    anchor = next(node for node in program.graph.nodes if node.op != "placeholder")
    for node in list(program.user_inputs()):
        if node.name not in program.dim_orders:
            continue
        has_views = plan_inputs and node.name not in mutated and not is_dynamic(node.meta["val"].shape)
        readers = [
            user
            for user in node.users
            if user.target is not REORDERS
            and user not in exchanged
            and not (has_views and reinterprets(user, orders))
        ]
        if readers:
            copy = builder.at(anchor).call(REORDERS, node, val=node.meta["val"])
            # the copy belongs to the input, not to the first operator
            copy.meta = {"val": copy.meta["val"], "source": readers[0].meta.get("source")}
            for reader in readers:
                reader.replace_input_with(node, copy)


def _reorder_outputs(program: EdgeProgram, builder: Builder) -> None:
    """Gives each output that is not row-major a separate node."""
    output = program.output_node()
    owned: list[Any] = []
    position = 0
    results: Any = output.args[0]
    for result, spec in zip(results, program.output_specs, strict=True):
        order = None
        if spec.kind is OutputKind.USER_OUTPUT:
            order = program.output_orders.get(position)
            position += 1
        is_own = isinstance(result, Node) and list(result.users) == [output] and results.count(result) == 1
        owned.append(result if order is None else _in_order(builder.at(output), result, order, is_own))
    output.args = (tuple(owned),)


def _in_order(builder: Builder, result: Node, order: DimOrder, is_own: bool) -> Node:
    """Returns a node for an output that is not row-major, which has no other use.

    Args:
        builder: creates nodes before the output.
        result: the value of the output.
        order: of the output.
        is_own: whether the value has no other use.
    """
    is_view = _is_view(result, order)
    if is_own and (is_view or result.target is REORDERS):
        return result
    target, args = (result.target, result.args) if is_view else (REORDERS, (result,))
    owned = builder.call(target, *args, val=result.meta["val"])
    for key in ("source", "debug_handle", "crossing"):
        if key in result.meta:
            owned.meta[key] = result.meta[key]
    return owned


def _is_view(result: Node, order: DimOrder) -> bool:
    """Whether an output is a permutation that needs no copy."""
    if is_dynamic(result.meta["val"].shape) or not reinterprets(result, {result: order}):
        return False
    source = result.args[0]
    return isinstance(source, Node) and source.op != "placeholder"
