# SPDX-License-Identifier: Apache-2.0
"""Dynamic sizes of an exported program's inputs, to export a graph derived from it."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.quantize.inputs import MethodInputs


def dynamic_shapes(program: ExportedProgram) -> tuple[Any, ...] | None:
    """Returns the dynamic shapes of a program's inputs, for `torch.export.export`; None if static."""
    inputs = MethodInputs.of(program)
    dims: dict[str, Any] = {}
    leaves = [
        _dims(value, program, dims) if isinstance(value, torch.Tensor) else None
        for value in inputs.values.values()
    ]
    if not dims:
        return None
    arguments, keywords = pytree.tree_unflatten(leaves, inputs.spec)
    return (*arguments, *keywords.values())


def _dims(tensor: torch.Tensor, program: ExportedProgram, dims: dict[str, Any]) -> dict[int, Any]:
    sizes: list[Any] = list(tensor.shape)
    return {
        axis: _dim(size, program, dims)
        for axis, size in enumerate(sizes)
        if not isinstance(size, int) and size.node.expr.free_symbols
    }


def _dim(size: torch.SymInt, program: ExportedProgram, dims: dict[str, Any]) -> Any:
    expression = size.node.expr
    (symbol,) = expression.free_symbols
    name = str(symbol)
    if name not in dims:
        bounds = program.range_constraints[symbol]
        dims[name] = Dim(name, min=int(bounds.lower), max=int(bounds.upper))
    if expression == symbol:
        return dims[name]
    factor, offset = sympy.Poly(expression, symbol).all_coeffs()
    scaled = dims[name] if factor == 1 else int(factor) * dims[name]
    return scaled if offset == 0 else scaled + int(offset)
