# SPDX-License-Identifier: Apache-2.0
"""Tables in float32 whose rows are gathered, in bfloat16 if that has all of their values.

Published weights often are bfloat16, and so are XNNPACK's scales of groups. The rows are converted after they
are gathered.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.delegation import LoweredModule
from delegatec.delegation.protocol.parts import tensor_part
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.program.content import equal_bytes

aten = torch.ops.aten

# In bytes: a smaller table is not worth the conversion.
_LEAST_SIZE: Final = 4096
# Elements that are compared at a time: most tables differ in the first ones.
_CHUNK: Final = 1 << 18


def narrow_tables(program: EdgeProgram) -> None:
    """Stores tables that are only gathered in bfloat16, but not those that a delegate has in float32, too.

    Args:
        program: edited in place, with the bodies of its control flow.
    """
    for each in program.walk():
        constants = each.fixed_constants()
        tables = [
            node
            for node in each.graph.find_nodes(op="placeholder")
            if node.name in constants and constants[node.name].dtype is torch.float32
        ]
        # tied ones are stored once
        read = {
            constants[node.name].data_ptr()
            for node in tables
            if not all(_gathers(user, node) for user in node.users)
        }
        tables = [node for node in tables if node.users and constants[node.name].data_ptr() not in read]
        if not tables:
            continue
        modules = [child for child in each.graph_module.children() if isinstance(child, LoweredModule)]
        named = [item.data for module in modules for item in module.named_data.values()]
        builder = Builder(each)
        for node in tables:
            table = constants[node.name]
            is_shared = any(equal_bytes(data, tensor_part(table)) for data in named)
            if table.nbytes >= _LEAST_SIZE and not is_shared and _is_bfloat16(table):
                _narrow(builder, node, table)
        each.erase_unused_placeholders()


def _gathers(user: Node, table: Node) -> bool:
    is_gather = user.target is aten.embedding.default or (
        user.target is aten.index_select.default and user.args[1] == 0
    )
    return bool(is_gather and user.args[0] is table)


def _is_bfloat16(table: Tensor) -> bool:
    flat = table.reshape(-1)
    parts = (flat[start : start + _CHUNK] for start in range(0, flat.numel(), _CHUNK))
    return all(torch.equal(part.to(torch.bfloat16).to(torch.float32), part) for part in parts)


def _narrow(builder: Builder, node: Node, table: Tensor) -> None:
    narrow = builder.derived(node, table.to(torch.bfloat16), torch.bfloat16)
    for user in list(node.users):
        builder.at(user)
        rows = builder.call(user.target, narrow, *user.args[1:], **user.kwargs)
        user.replace_all_uses_with(builder.call(aten._to_copy.default, rows, dtype=torch.float32))
        builder.program.graph.erase_node(user)
