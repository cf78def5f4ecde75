# SPDX-License-Identifier: Apache-2.0
"""Normalizations. XNNPACK has none: means are products with constant rows, in float32."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, converted, operand, reshaped, unary
from delegatec.backends.xnnpack.building.reductions import mean_of_rows
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import only_first_result
from delegatec.edge.symbols import is_dynamic


def _layer_norm(b: GraphBuilder, node: Node) -> None:
    """Computes (x - mean) / sqrt(variance + eps), then scale and shift."""
    bound = bind(node)
    source = b.of(bound["input"])
    dtype, shape = b.type_of(source)
    outer, length = shape[: -len(bound["normalized_shape"])], math.prod(bound["normalized_shape"])
    x = reshaped(b, converted(b, source, torch.float32), [*outer, length])
    centered = binary(b, Operation.Subtract, x, mean_of_rows(b, x))
    variance = mean_of_rows(b, unary(b, Operation.Square, centered))
    scale = unary(b, Operation.ReciprocalSquareRoot, binary(b, Operation.Add, variance, float(bound["eps"])))
    y = reshaped(b, binary(b, Operation.Multiply, centered, scale), shape)
    for operation, name in ((Operation.Multiply, "weight"), (Operation.Add, "bias")):
        if bound[name] is not None:
            y = binary(b, operation, y, operand(b, bound[name], torch.float32))
    b.alias(node, converted(b, y, dtype), 0)


def _varying_sizes(node: Node, _: object) -> str | None:
    sizes, count = bind(node)["input"].meta["val"].shape, len(bind(node)["normalized_shape"])
    if is_dynamic(sizes[-count:]):
        return f"a norm of the sizes {[str(size) for size in sizes[-count:]]}"
    varying = [size for size in sizes[:-count] if not isinstance(size, int)]
    return f"the sizes {[str(size) for size in sizes]}" if count > 1 and len(varying) > 1 else None


_SIZES: Final = Constraint(
    "dynamic-shape",
    "Normalized sizes are static; with several, at most one other size is dynamic.",
    _varying_sizes,
    "make the size a constant of the model",
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "native_layer_norm",
        _layer_norm,
        _SIZES,
        only_first_result("the delegate does not return the statistics."),
        resizes=True,
        note="in float32",
    ),
)
