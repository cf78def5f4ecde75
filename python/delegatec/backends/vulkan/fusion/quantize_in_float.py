# SPDX-License-Identifier: Apache-2.0
"""Quantized values of dynamic sizes as float32: the runtime does not resize int8."""

from __future__ import annotations

import operator
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.operators.rewrites.affine import parameters, quantized_values
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.guards import no_new_guards
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.affine import AFFINE, in_blocks
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.symbols import is_dynamic

_PAIRS: Final = {
    DEQUANTIZE: QUANTIZE,
    AFFINE.dequantize_affine.default: AFFINE.quantize_affine.default,
}
_CHOOSE: Final = AFFINE.choose_qparams_affine.default


def quantize_in_float(program: EdgeProgram) -> bool:
    """Replaces calls that quantize and dequantize a value of dynamic sizes by arithmetic on floats.

    The values are the same. Quantized values that anything else reads stay.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    pairs = [
        (node, source)
        for node in program.graph.nodes
        if node.target in _PAIRS and is_dynamic(shape_of(node))
        for source in (bind(node)["input"],)
        if source.target is _PAIRS[node.target]
    ]
    if not pairs:
        return False
    builder = Builder(program, Facts(program.fixed_constants()))
    floats = _Floats(builder)
    with no_new_guards(builder):
        for node, source in pairs:
            floats.replace(node, source)
    eliminate_dead_code(program)
    return True


class _Floats:
    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._chosen: dict[Node, tuple[Value, Value] | None] = {}
        self._values: dict[Node, Value] = {}

    def replace(self, node: Node, source: Node) -> None:
        """Replaces a call that dequantizes what another one quantizes."""
        if source not in self._values:
            quantize = self._quantized if source.target is QUANTIZE else self._quantized_in_blocks
            self._values[source] = quantize(source)
        dequantize = self._dequantized if node.target is DEQUANTIZE else self._dequantized_in_blocks
        result = dequantize(node, self._values[source]).view(*shape_of(node)).to(dtype_of(node))
        node.replace_all_uses_with(result.node)

    def _quantized(self, node: Node) -> Value:
        bound = bind(node)
        x = value_of(self._builder.at(node), bound["input"], torch.float32)
        found: Value = (x * (1.0 / bound["scale"])).round() + bound["zero_point"]
        return found.clamp(bound["quant_min"], bound["quant_max"])

    def _dequantized(self, node: Node, values: Value) -> Value:
        self._builder.at(node)
        bound = bind(node)
        found: Value = (values - bound["zero_point"]) * bound["scale"]
        return found

    def _quantized_in_blocks(self, node: Node) -> Value:
        scale, zeros = self._parameters(node)
        return quantized_values(self._builder.at(node), node, scale, zeros)

    def _dequantized_in_blocks(self, node: Node, values: Value) -> Value:
        scale, zeros = self._parameters(node)
        self._builder.at(node)
        _, per_block, _ = in_blocks(shape_of(node), bind(node)["block_size"])
        values = values if zeros is None else values - zeros.view(*per_block)
        return values * scale.view(*per_block)

    def _parameters(self, node: Node) -> tuple[Value, Value | None]:
        """Returns scale and zero point of a call, one of each for a block."""
        bound = bind(node)
        zeros = None if bound["zero_point"] is None else self._parameter(node, bound["zero_point"])
        return self._parameter(node, bound["scale"]), zeros

    def _parameter(self, node: Node, operand: Node) -> Value:
        call = operand.all_input_nodes[0] if operand.target is operator.getitem else operand
        if call.target is _CHOOSE:
            if call not in self._chosen:
                self._chosen[call] = parameters(self._builder.at(call), call)
            chosen = self._chosen[call]
            if chosen is not None:
                scale, zeros = chosen
                return scale if operand.args[1] == 0 else zeros
        return value_of(self._builder.at(node), operand, torch.float32)
