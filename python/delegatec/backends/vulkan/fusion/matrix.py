# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of matrix products."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.constant import QuantizedConstant, quantized_constant

aten = torch.ops.aten


def matrix_of(program: EdgeProgram, node: Node, transposed: bool = False) -> QuantizedConstant | None:
    """Returns a quantized weight as [columns of the product, rows], by row, if a node dequantizes one.

    Args:
        program: of the node.
        node: an operand of a product.
        transposed: whether its rows are those of the product's operand.
    """
    if node.target is aten.permute.default and bind(node)["dims"] == [1, 0]:
        return matrix_of(program, node.all_input_nodes[0], not transposed)
    if node.target is aten._to_copy.default and dtype_of(node.all_input_nodes[0]).is_floating_point:
        return matrix_of(program, node.all_input_nodes[0], transposed)
    if node.target is aten.slice.Tensor:
        return _sliced(program, node, transposed)
    found = quantized_constant(node, lambda each: program.constants.get(each.name))
    if found is None or len(found.block) != 2:
        return None
    return _oriented(found, transposed)


def _oriented(found: QuantizedConstant, transposed: bool) -> QuantizedConstant:
    return (found.permuted(1, 0) if transposed else found).by_row()


def _sliced(program: EdgeProgram, node: Node, transposed: bool) -> QuantizedConstant | None:
    """Returns rows of a weight that is only converted, such as those of a product in parts."""
    bound = bind(node)
    found = matrix_of(program, bound["self"])
    if found is None or found.splits(1) or found.zero_points is not None:
        return None
    if (found.scales != found.scales[0]).any():
        return None
    sizes = shape_of(bound["self"])
    part = slice(*slice(bound["start"], bound["end"], bound["step"]).indices(sizes[bound["dim"]]))
    values = found.values[part] if bound["dim"] == 0 else found.values[:, part]
    sliced = replace(found, values=values, block=tuple(values.shape), scales=found.scales[:1])
    return _oriented(sliced, transposed)
