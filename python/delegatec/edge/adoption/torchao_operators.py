# SPDX-License-Identifier: Apache-2.0
"""Operators of torchao, as operators that exist where a program is lowered, without torchao."""

from __future__ import annotations

from typing import Final

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from delegatec.edge.arguments import dtype_of
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.quantization.affine import AFFINE

aten = torch.ops.aten

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
    """Replaces torchao's operators of quantization by those of `edge/quantization`, which are the same.

    Products of int8 are computed from int8 again, whichever the instructions of this computer's CPU.
    """
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
