# SPDX-License-Identifier: Apache-2.0
"""Selection of the supported nodes of a program, with a reason for every other node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.delegation import (
    CompileSpec,
    DelegationSpec,
    Partitioner,
    Partitioning,
    Rejection,
    convex_groups,
)
from delegatec.edge import EdgeProgram
from demo_backend.operators import CONVOLUTION, RELU, TAN, Convolution


class DemoPartitioner(Partitioner):
    """Takes convolutions followed by a relu, and tan.

    Args:
        compile_specs: the backend's settings.
    """

    def __init__(self, compile_specs: Sequence[CompileSpec]) -> None:
        self._delegation = DelegationSpec("MappingDemoBackend", tuple(compile_specs))
        self._leaves_tan = any(spec.key == "tan" and spec.value == b"leave" for spec in compile_specs)

    def partition(self, program: EdgeProgram) -> Partitioning:
        """Groups the supported nodes, and rejects all others with a reason. Does not edit the program."""
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        constants = program.fixed_constants()
        rejections = {node: self._rejection(node, constants) for node in nodes}
        index = {node: position for position, node in enumerate(nodes)}
        groups = convex_groups(
            [[index[source] for source in node.all_input_nodes if source in index] for node in nodes],
            [rejections[node] is None for node in nodes],
        )
        return Partitioning(
            self._delegation,
            groups=[[nodes[position] for position in group] for group in groups],
            rejections=[rejection for rejection in rejections.values() if rejection is not None],
        )

    def _rejection(self, node: Node, constants: dict[str, torch.Tensor]) -> Rejection | None:
        rule = _RULES.get(node.target)
        if rule is None:
            return Rejection(
                node, "operator", "unsupported operator: the device has conv_relu, sin, cos and div"
            )
        if node.target is TAN and self._leaves_tan:
            return Rejection(node, "option", "the option tan is set to leave", 'set it to "split"')
        if node.meta["val"].dtype is not torch.float32:
            dtype = str(node.meta["val"].dtype).removeprefix("torch.")
            return Rejection(node, "dtype", f"the result is {dtype}; the device computes in float32")
        return rule(node, constants)


def _convolution(node: Node, constants: dict[str, torch.Tensor]) -> Rejection | None:
    found = Convolution.of(node)
    rank = found.input.meta["val"].dim()
    if rank != 4:
        return Rejection(node, "rank", f"the input has {rank} dimensions; the device supports 4")
    if found.transposed:
        return Rejection(node, "transposed", "transposed convolution", "upsample, then convolve")
    for operand in (found.weight, found.bias):
        if operand is not None and operand.name not in constants:
            return Rejection(
                node, "weights", f"{operand.name} is not a constant, and weights are part of the blob"
            )
    if [user.target for user in node.users] != [RELU]:
        return Rejection(
            node,
            "conv_without_relu",
            "the device convolves only with a relu, but the result is used "
            + (" and ".join(f"to {user.name}" for user in node.users) or "nowhere"),
            "add torch.relu as its only user",
        )
    return None


def _relu(node: Node, constants: dict[str, torch.Tensor]) -> Rejection | None:
    source: Any = node.args[0]
    if source.target is not CONVOLUTION:
        return Rejection(
            node, "relu_without_conv", f"the device has no separate relu, and this one reads {source.name}"
        )
    broken = _convolution(source, constants)
    if broken is not None:
        return Rejection(node, "relu_without_conv", f"its convolution was rejected: {broken.message}")
    return None


def _tan(node: Node, constants: dict[str, torch.Tensor]) -> Rejection | None:
    return None


_RULES: Final[dict[Any, Callable[[Node, dict[str, torch.Tensor]], Rejection | None]]] = {
    CONVOLUTION: _convolution,
    RELU: _relu,
    TAN: _tan,
}
