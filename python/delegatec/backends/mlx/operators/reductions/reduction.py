# SPDX-License-Identifier: Apache-2.0
"""Reductions. Sums of half precision are computed in float32, as in ATen: their rewrites convert."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.dtypes import FLOATS, HALVES, INTEGERS, NUMERIC
from delegatec.backends.mlx.operators.row import Constraint, Lower, operator_row
from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes
from delegatec.edge.legalize.rules.reductions import reduced_dims


def _emit(b: GraphBuilder, node: Node, name: str, x: Array) -> None:
    """Reduces a value, unless it has no dimensions or none is reduced."""
    dims, keepdim = reduced_dims(node), bool(bind(node).get("keepdim", False))
    if not dims:
        b.alias(node, x)
        return
    b.emit(name, x=x, out=b.result(node), axes=dims, keepdims=keepdim)


def reduction(name: str, dtype: Callable[[Node], torch.dtype] = dtype_of, on_bools: str = "") -> Lower:
    """Returns the lowering to a reduction of values in a dtype, by default that of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        x = b.operand(bind(node)["self"], dtype(node))
        _emit(b, node, on_bools if on_bools and x.dtype == torch.bool else name, x)

    return lower


def _correction(node: Node) -> float:
    bound = bind(node)
    if "unbiased" in bound:
        return float(bound["unbiased"])
    return 1.0 if bound["correction"] is None else float(bound["correction"])


def _moment(name: str) -> Lower:
    """Returns the lowering to a moment of values in float32."""

    def lower(b: GraphBuilder, node: Node) -> None:
        bound, out = bind(node), b.result(node)
        x, dims = b.in_float32(bound["self"]), reduced_dims(node)
        found = out if out.dtype == x.dtype else b.temporary(out.shape, x.dtype)
        keepdim, ddof = bool(bound["keepdim"]), int(_correction(node))
        b.emit(name, x=x, out=found, axes=dims, keepdims=keepdim, ddof=ddof)
        b.alias(node, b.converted(found, out.dtype))

    return lower


def _log_sum_exp(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.in_float32(bound["self"])
    dims, out = reduced_dims(node), b.result(node)
    result = out if out.dtype == x.dtype else b.temporary(out.shape, x.dtype)
    b.emit("LogSumExp", x=x, out=result, axes=dims, keepdims=bool(bound["keepdim"]))
    b.alias(node, b.converted(result, out.dtype))


def _cumsum(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    exact = torch.float32 if dtype in HALVES else dtype
    x = b.operand(bound["self"], exact)
    if not x.shape:
        b.alias(node, b.converted(x, dtype))
        return
    out = b.result(node)
    result = out if exact == dtype else b.temporary(out.shape, exact)
    b.emit("Cumsum", x=x, out=result, axis=positive(bound["dim"], len(x.shape)), inclusive=True)
    b.alias(node, b.converted(result, dtype))


def _other_correction(node: Node, _: object) -> str | None:
    if not bind(node)["self"].meta["val"].shape:
        return "self has rank 0"
    correction = _correction(node)
    return None if correction.is_integer() else f"correction is {correction}"


def _no_dims(node: Node, _: object) -> str | None:
    return None if reduced_dims(node) else "no dimension is reduced"


_SUMMED: Final = INTEGERS | {torch.float32, torch.bool}
_WHY: Final = "sums of half precision are computed in float32."
_SUMS: Final = (
    operand_dtypes(_SUMMED, _WHY),
    result_dtypes(INTEGERS | {torch.float32}, _WHY),
)
_FLOAT32: Final = (operand_dtypes((torch.float32,), _WHY), result_dtypes((torch.float32,), _WHY))
_NUMERIC: Final = operand_dtypes(NUMERIC | {torch.bool}, "MLX orders numbers.")

ROWS: Final = (
    operator_row("sum.dim_IntList", reduction("Sum"), *_SUMS),
    *(operator_row(name, reduction("Mean"), *_FLOAT32) for name in ("mean", "mean.dim")),
    *(operator_row(name, reduction("Prod"), *_SUMS) for name in ("prod", "prod.dim_int")),
    *(operator_row(name, reduction("Max", on_bools="Any"), _NUMERIC) for name in ("amax", "max")),
    *(operator_row(name, reduction("Min", on_bools="All"), _NUMERIC) for name in ("amin", "min")),
    *(operator_row(name, reduction("Any", lambda _: torch.bool)) for name in ("any", "any.dim", "any.dims")),
    *(
        operator_row(name, reduction("All", lambda _: torch.bool), preserved=True)
        for name in ("all", "all.dim", "all.dims")
    ),
    *(
        operator_row(
            name,
            _moment(node),
            operand_dtypes(FLOATS, "it is computed in floating point."),
            Constraint(
                "argument", "The correction is an integer, and self has a dimension.", _other_correction
            ),
            note="in float32",
            preserved=True,
        )
        for name, node in (
            *(("var.correction", "Var"), ("var.dim", "Var")),
            *(("std.correction", "Std"), ("std.dim", "Std")),
        )
    ),
    operator_row(
        "logsumexp",
        _log_sum_exp,
        operand_dtypes(FLOATS, "it is computed in floating point."),
        Constraint("rank", "At least one dimension is reduced.", _no_dims),
        note="in float32",
        preserved=True,
    ),
    operator_row(
        "cumsum", _cumsum, result_dtypes(NUMERIC, "MLX does not add bools."), note="half precision in float32"
    ),
)
