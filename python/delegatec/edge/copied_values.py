# SPDX-License-Identifier: Apache-2.0
"""Values that are copied to complete buffers, before torch's functionalization.

It returns such a value unchanged, of any dtype and shape, and loses the order of results if two buffers have
one value.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key


def convert_copied_values(program: EdgeProgram) -> None:
    """Converts the source of a copy to the dtype and sizes of the destination, and copies a shared source."""
    aten, seen = torch.ops.aten, set[Node]()
    for node in program.graph.find_nodes(op="call_function", target=aten.copy_.default):
        target, source = node.args[0].meta["val"], node.args[1]
        builder = Builder(program, Facts({})).at(node)
        if source.meta["val"].dtype != target.dtype:
            source = builder.call(aten.to.dtype, source, target.dtype)
        if sizes_key(source.meta["val"]) != sizes_key(target):
            source = builder.call(aten.expand.default, source, list(target.shape))
        if source.op == "placeholder" or source.target is aten.copy_.default or source in seen:
            source = builder.call(aten.clone.default, source)
        seen.add(source)
        node.update_arg(1, source)


def copied_values() -> Callable[..., Tensor]:
    """Returns a decomposition of `aten.copy` for one retracing, which does the same."""
    seen: list[Tensor] = []

    def copied(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        value = source.to(to.dtype)
        if sizes_key(value) != sizes_key(to):
            value = value.expand(to.shape).clone()
        elif value is source and any(each is source for each in seen):
            value = value.clone()
        seen.extend((source, value))
        return value

    return copied
