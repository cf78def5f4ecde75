# SPDX-License-Identifier: Apache-2.0
"""The partitioner: quantized values are neither inputs nor outputs of a delegate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.legality import Legality
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.dtypes import LEVELS
from delegatec.backends.vulkan.fusion.layers import Layer, layer_of, unsupported
from delegatec.backends.vulkan.fusion.weights import is_pointwise
from delegatec.delegation import Rejection
from delegatec.edge.analysis.quantized import QuantizedConstant, quantized_constant
from delegatec.edge.arguments import bind, dtype_of, tensors
from delegatec.edge.program import EdgeProgram

_CONVOLUTION: Final = torch.ops.aten.convolution.default
_DOC: Final = (
    "Unless it is of 1 x 1, a convolution has weights of int8, one scale per channel of the result and no "
    "zero points, and is between values that are quantized to int8 of the full range"
)
_HELP: Final = "quantize activations to int8, too, or do not quantize the convolution"


class VulkanPartitioner(TablePartitioner[Settings]):
    """Rejects nodes that would exchange int8 with nodes outside: the runtime sizes such copies wrongly.

    A convolution with a quantized weight is supported between quantized values only, together with the calls
    that quantize and dequantize them.
    """

    def rejection(self, program: EdgeProgram, node: Node, legality: Legality[Settings]) -> Rejection | None:
        """See `TablePartitioner.rejection`."""
        if node.target is not _CONVOLUTION or _weight_of(program, node) is None:
            return super().rejection(program, node, legality)
        if _is_product(program, node):
            return None
        layer = _layer_of(program, node)
        reason = "of floating point" if layer is None else unsupported(layer)
        if reason is None:
            return None
        return Rejection(node, "quantized", f"a convolution with a quantized weight, {reason}. {_DOC}", _HELP)

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
            elif node.target is _CONVOLUTION and _weight_of(program, node) is not None:
                layer = _layer_of(program, node)
                needed = [bind(node)["weight"]] if layer is None or unsupported(layer) else layer.members()
                if not members.issuperset(needed):
                    found.append(Rejection(node, "boundary", f"its operands are quantized elsewhere. {_DOC}"))
        return found


def _is_product(program: EdgeProgram, node: Node) -> bool:
    """Whether a convolution is a product with a matrix of at most eight bits."""
    weight = _weight_of(program, node)
    return weight is not None and is_pointwise(node) and dtype_of(weight.levels) == torch.int8


def _weight_of(program: EdgeProgram, node: Node) -> QuantizedConstant | None:
    constants = program.fixed_constants()
    return quantized_constant(bind(node)["weight"], lambda each: constants.get(each.name))


def _layer_of(program: EdgeProgram, node: Node) -> Layer | None:
    constants = program.fixed_constants()
    return layer_of(node, lambda each: constants.get(each.name))


def _is_quantized(node: Node) -> bool:
    return any(each.dtype in LEVELS for each in tensors(node.meta.get("val")))


def _rejection(node: Node, what: str) -> Rejection:
    message = f"its quantized value would be {what} of the delegate, which the runtime does not copy"
    return Rejection(node, "boundary", message)
