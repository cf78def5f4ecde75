# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of matrix products."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.edge.analysis.quantized import QuantizedConstant, quantized_constant
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


class Matrix:
    """A quantized weight of a product.

    Args:
        found: the operands of its dequantization.
        transposed: whether its rows are those of the product's operand.

    Attributes:
        source: the constant of its levels.
        levels: integers, (columns of the product, rows).
        scales: float32, (columns, groups of rows).
        zeros: of the same shape; None if all are zero.
        group: rows per group.
    """

    def __init__(self, found: QuantizedConstant, transposed: bool = False) -> None:
        self.source = found.levels
        order = (1, 0) if transposed else (0, 1)
        self.levels = found.tensor.detach().permute(order)
        columns, rows = self.levels.shape
        height, self.group = (found.block[dim] for dim in order)
        parts = (found.scales, found.zeros)
        self.scales, self.zeros = (
            None if part is None else part.permute(order).repeat_interleave(height, 0).to(torch.float32)
            for part in parts
        )
        assert self.scales is not None and self.scales.shape == (columns, rows // self.group)

    def range(self) -> tuple[int, int]:
        """Returns the least and largest level."""
        low, high = self.levels.aminmax()
        return int(low), int(high)


def matrix_of(program: EdgeProgram, node: Node, transposed: bool = False) -> Matrix | None:
    """Returns a quantized weight, if a node dequantizes one.

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
    return Matrix(found, transposed)


def _sliced(program: EdgeProgram, node: Node, transposed: bool) -> Matrix | None:
    """Returns rows of a weight that is only converted, such as those of a product in parts."""
    bound = bind(node)
    found = matrix_of(program, bound["self"])
    if (
        found is None
        or found.scales is None
        or found.group != found.levels.shape[1]
        or found.zeros is not None
    ):
        return None
    if (found.scales != found.scales[0]).any():
        return None
    sizes = shape_of(bound["self"])
    part = slice(*slice(bound["start"], bound["end"], bound["step"]).indices(sizes[bound["dim"]]))
    levels = found.levels[part] if bound["dim"] == 0 else found.levels[:, part]
    scale = found.scales[0, 0].expand(1, 1)
    return Matrix(QuantizedConstant(found.source, levels, tuple(levels.shape), scale, None), transposed)
