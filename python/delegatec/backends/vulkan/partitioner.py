# SPDX-License-Identifier: Apache-2.0
"""The partitioner: quantized values are neither inputs nor outputs of a delegate."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.dtypes import LEVELS
from delegatec.delegation import Rejection
from delegatec.edge.arguments import tensors
from delegatec.edge.program import EdgeProgram


class VulkanPartitioner(TablePartitioner[Settings]):
    """Rejects nodes that would exchange int8 with nodes outside: the runtime sizes such copies wrongly."""

    def misplaced(self, program: EdgeProgram, nodes: Sequence[Node]) -> Sequence[Rejection]:
        """See `HasBoundary.misplaced`."""
        members = {*nodes}
        constants = program.fixed_constants()
        found: list[Rejection] = []
        for node in nodes:
            inputs = (
                each for each in node.all_input_nodes if each not in members and each.name not in constants
            )
            if any(map(_is_quantized, inputs)):
                found.append(_rejection(node, "an input"))
            elif _is_quantized(node) and any(user not in members for user in node.users):
                found.append(_rejection(node, "an output"))
        return found


def _is_quantized(node: Node) -> bool:
    return any(each.dtype in LEVELS for each in tensors(node.meta.get("val")))


def _rejection(node: Node, what: str) -> Rejection:
    message = f"its quantized value would be {what} of the delegate, which the runtime does not copy"
    return Rejection(node, "boundary", message)
