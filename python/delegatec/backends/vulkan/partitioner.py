# SPDX-License-Identifier: Apache-2.0
"""The partitioner: quantized values are neither inputs nor outputs of a delegate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common.legality import Legality, Prepare, TableTarget
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.dtypes import QUANTIZED
from delegatec.backends.vulkan.fusion.layers import fused_of, unsupported
from delegatec.backends.vulkan.fusion.quantize_in_float import quantize_in_float
from delegatec.backends.vulkan.fusion.weights import is_pointwise
from delegatec.backends.vulkan.operators.faulty_sizes import size_of
from delegatec.backends.vulkan.operators.rewrites.avoid_faults import more_channels, parts_of
from delegatec.backends.vulkan.operators.rules import MOST_RANK
from delegatec.delegation import Rejection
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.rounded_logarithms import rounded_logarithms
from delegatec.edge.arguments import bind, tensors
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.sizes_of_operands import depends_on_data
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.constant import Constant, QuantizedConstant, quantized_constant
from delegatec.edge.symbols import is_scalar, largest, size_nodes, smallest_nonempty

_CONVOLUTION: Final = torch.ops.aten.convolution.default
_DOC: Final = (
    "int8 convolution weights need int8 activations of the full range (1 x 1 excepted), one scale per output "
    "channel, and zero point 0"
)
_READ: Final = "a size that the program reads from a tensor: a delegate has sizes of its tensors only"
_ROUNDED: Final = (
    "it is part of a logarithm of integers that is rounded: the last digit decides, and devices differ in it"
)
_HELP: Final = "quantize activations to int8, too, or do not quantize the convolution"


class VulkanLegality(Legality[Settings]):
    """Legality of the calls of one program.

    A tensor that is an operand only for its size is copied to the device like others. A convolution with a
    quantized weight is supported between quantized values only, together with the calls that quantize and
    dequantize them.

    Args:
        target: the backend.
        prepare: passes over a private program that run before legalization.
        program: the program.
    """

    def __init__(
        self, target: TableTarget[Settings], prepare: Sequence[Prepare], program: EdgeProgram
    ) -> None:
        super().__init__(target, prepare)
        self._constant = Facts(program.fixed_constants()).constant
        self._rounded = rounded_logarithms(program)

    def rejection(self, program: EdgeProgram, node: Node) -> Rejection | None:
        """See `Legality.rejection`."""
        if any(is_scalar(each) and depends_on_data(each) for each in node.all_input_nodes):
            return Rejection(node, "dynamic-shape", _READ, "compute the size from the shape of a tensor")
        if node in self._rounded:
            return Rejection(node, "rounding", _ROUNDED)
        for size in _measured(node):
            refusal = self._target.exclusion(size)
            if refusal is not None:
                (tensor,) = size.all_input_nodes
                return Rejection(
                    node, refusal.rule, f"a size of {tensor.name}: {refusal.message}", refusal.help
                )
        weight = _weight_of(node, self._constant)
        if weight is None:
            return super().rejection(program, node)
        layer = fused_of(node, self._constant)
        is_fused = layer is not None and unsupported(layer) is None
        is_product = is_pointwise(node) and weight.dtype == torch.int8
        if is_fused or is_product:
            return self._faulty(node, is_product=is_product and not is_fused)
        reason = "and float activations" if layer is None else unsupported(layer)
        return Rejection(node, "quantized", f"a convolution with a quantized weight {reason}. {_DOC}", _HELP)

    def _faulty(self, node: Node, *, is_product: bool) -> Rejection | None:
        """Returns why a device computes a convolution with a quantized weight wrongly in any form."""
        device, found = self._target.settings.device, size_of(node)
        if not device.faults:
            return None
        batch, channels, *image = node.meta["val"].shape
        if is_product:
            name, size = "product.rows", math.prod([batch, *image])
            low, high = smallest_nonempty(size), largest(size)
            is_avoidable = parts_of(name, size, device) is not None
        else:
            # groups may be merged
            name = found[0] if found else "convolution.output_channels"
            low = high = channels
            is_avoidable = more_channels(name, channels, device) is not None
        assert high is not None
        fault = device.fault(name, low, high)
        if fault is None or is_avoidable:
            return None
        what = name.partition(".")[2].replace("_", " ")
        message = (
            f"up to {high} {what}. On {device.name}, {fault.effect}, and other sizes cannot replace this one"
        )
        return Rejection(node, "device", message)


class VulkanPartitioner(TablePartitioner[Settings]):
    """Rejects nodes that would exchange int8 with nodes outside: the runtime sizes such copies wrongly."""

    @property
    def most_rank(self) -> int:
        """See `TablePartitioner.most_rank`."""
        return MOST_RANK

    @property
    def preparation(self) -> Sequence[Pass]:
        """See `Partitioner.preparation`."""
        return (*super().preparation, quantize_in_float)

    def legality(self, program: EdgeProgram) -> Legality[Settings]:
        """See `TablePartitioner.legality`."""
        return VulkanLegality(self._target, self._prepare, program)

    def misplaced(self, program: EdgeProgram, nodes: Sequence[Node]) -> Sequence[Rejection]:
        """See `Partitioner.misplaced`."""
        members = {*nodes}
        constant = Facts(program.fixed_constants()).constant
        found: list[Rejection] = []
        for node in nodes:
            sources = (
                *node.all_input_nodes,
                *(each for size in _measured(node) for each in size.all_input_nodes),
            )
            inputs = (each for each in sources if each not in members and constant(each) is None)
            if any(map(_is_quantized, inputs)):
                found.append(_rejection(node, "an input"))
            elif _is_quantized(node) and any(user not in members for user in node.users):
                found.append(_rejection(node, "an output"))
            elif _weight_of(node, constant) is not None:
                layer = fused_of(node, constant)
                needed = [bind(node)["weight"]] if layer is None or unsupported(layer) else layer.members()
                if not members.issuperset(needed):
                    found.append(Rejection(node, "boundary", f"its operands are quantized elsewhere. {_DOC}"))
        return found


def _measured(node: Node) -> Iterator[Node]:
    """Yields the sizes of tensors that scalar operands depend on: a delegate reads the tensors."""
    for size in size_nodes([node]):
        if isinstance(size.target, OpOverload):
            yield size


def _weight_of(node: Node, constant: Constant) -> QuantizedConstant | None:
    """Returns the quantized weight of a convolution; None for other calls."""
    return quantized_constant(bind(node)["weight"], constant) if node.target is _CONVOLUTION else None


def _is_quantized(node: Node) -> bool:
    return any(each.dtype in QUANTIZED for each in tensors(node.meta.get("val")))


def _rejection(node: Node, what: str) -> Rejection:
    message = f"its quantized value would be {what} of the delegate, which the runtime does not copy"
    return Rejection(node, "boundary", message)
