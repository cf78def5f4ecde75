# SPDX-License-Identifier: Apache-2.0
"""Operators of torchao, as operators that exist where a program is lowered, without torchao."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from delegatec.edge.affine import AFFINE
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.patterns.pattern import Call, Var

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed

_OPERATORS: Final = {
    f"torchao.{operator._opname}.default": operator
    for operator in (
        AFFINE.choose_qparams_affine.default,
        AFFINE.quantize_affine.default,
        AFFINE.dequantize_affine.default,
    )
}
# From int8 to uint8.
_SHIFT: Final = 128


def adopt_torchao_operators(program: ExportedProgram) -> None:
    """Replaces torchao's operators of quantization: of a matrix's rows or groups of columns by PT2E's.

    Products of int8 are computed from int8 again, whichever the instructions of this computer's CPU.
    """
    weights = {
        spec.arg.name: program.state_dict[spec.target]
        for spec in program.graph_signature.input_specs
        if spec.target in program.state_dict
    }
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        changed = False
        for node in list(module.graph.nodes):
            target = node.target
            if target is aten.sub_.Tensor:
                changed |= _unshift(node)
            elif str(target) in _OPERATORS:
                node.target, changed = _OPERATORS[str(target)], True
                if node.target is AFFINE.dequantize_affine.default:
                    _group(node, weights if module is program.graph_module else {})
        if changed:
            module.graph.eliminate_dead_code()
            module.recompile()


def _unshift(difference: Node) -> bool:
    """Removes the shift of a factor from int8 to uint8, and the difference that undoes it."""
    match = _SHIFTED.first(difference)
    if match is None:
        return False
    product = match.values["product"]
    product.replace_input_with(match.values["shifted"], match.values["factor"])
    difference.replace_all_uses_with(product)
    difference.graph.erase_node(difference)
    return True


_CONVERTED: Final = Call(aten.to.dtype, Var("factor").where(lambda node: dtype_of(node) is torch.int8), ...)
_FACTOR: Final = Call(aten.to.dtype, _CONVERTED + _SHIFT, ...).named("shifted")
_PRODUCT: Final = Call(aten._int_mm.default, _FACTOR, Var("matrix")).one_use().named("product")
_UNDONE: Final = Call(aten.sum.dim_IntList, Var("matrix"), ...) * _SHIFT
_SHIFTED: Final = Call(aten.sub_.Tensor, _PRODUCT, _UNDONE)


def _group(node: Node, weights: Mapping[str, torch.Tensor]) -> None:
    """Makes the values of a matrix in groups of columns a call of PT2E's operator, with the same results.

    Args:
        node: a call that dequantizes blocks of any shape.
        weights: weights by node.
    """
    bound: dict[str, Any] = bind(node)
    levels, scale, zeros = bound["input"], bound["scale"], bound["zero_point"]
    shape, block = shape_of(levels), bound["block_size"]
    if len(shape) != 2 or dtype_of(levels) is not torch.int8 or block[0] != 1 or block[1] < 2:
        return
    if list(shape_of(scale)) != [shape[0], shape[1] // block[1]]:
        return
    out = dtype_of(node)
    with node.graph.inserting_before(node):
        if out is torch.float32:
            scale = _converted(scale, out)
        if zeros is not None and zeros.name in weights and not weights[zeros.name].any():
            zeros = None
        if zeros is not None:
            # differences of int8 would overflow
            zeros = _converted(zeros, torch.int32)
    low, high = (bound[name] for name in ("quant_min", "quant_max"))
    limits = torch.iinfo(torch.int8)
    node.target = quantized.dequantize_per_channel_group.default
    node.args = (
        *(levels, scale, zeros),
        *(limits.min if low is None else int(low), limits.max if high is None else int(high)),
        *(torch.int8, block[1], out),
    )
    node.kwargs = {}


def _converted(node: Node, dtype: torch.dtype) -> Node:
    if dtype_of(node) is dtype:
        return node
    result: Node = node.graph.call_function(aten.to.dtype, (node, dtype))
    result.meta = {"val": node.meta["val"].to(dtype)}
    return result
