# SPDX-License-Identifier: Apache-2.0
"""Normalization of the last dimension, whose statistics the runtime computes in float32."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.dtypes import HALVES
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind, positive
from delegatec.edge.legalize.constraints import only_first_result


def _layer_norm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    weight, bias = (None if bound[name] is None else b.of(bound[name]) for name in ("weight", "bias"))
    fields = {"x": b.of(bound["input"]), "weight": weight, "bias": bias, "eps": float(bound["eps"])}
    b.emit("LayerNorm", out=b.result(node, 0), **fields)


def _rms_norm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    weight = None if bound["weight"] is None else b.of(bound["weight"])
    x = b.of(bound["input"])
    eps = torch.finfo(x.dtype).eps if bound["eps"] is None else float(bound["eps"])
    b.emit("RmsNorm", x=x, weight=weight, out=b.result(node), eps=eps)


def _softmax(b: GraphBuilder, node: Node) -> None:
    bound, out = bind(node), b.result(node)
    x = b.operand(bound["self"], out.dtype)
    axis = positive(bound["dim"], len(x.shape))
    b.emit("Softmax", x=x, out=out, axis=axis, precise=out.dtype in HALVES)


def _log_softmax(b: GraphBuilder, node: Node) -> None:
    """Subtracts the maximum, and the logarithm of the sum of exponentials of the rest, in float32.

    Near the logarithm of a sum of large elements, a float32 has few digits of the difference.
    """
    bound, out = bind(node), b.result(node)
    x = b.in_float32(bound["self"])
    axis = positive(bound["dim"], len(x.shape))
    shape = [1 if dim == axis else size for dim, size in enumerate(x.shape)]
    largest, total = b.temporary(shape, x.dtype), b.temporary(shape, x.dtype)
    rest, result = b.temporary(out.shape, x.dtype), out
    if out.dtype != x.dtype:
        result = b.temporary(out.shape, x.dtype)
    b.emit("Max", x=x, out=largest, axes=[axis], keepdims=True)
    b.emit("Subtract", a=x, b=largest, out=rest)
    b.emit("LogSumExp", x=rest, out=total, axes=[axis], keepdims=True)
    b.emit("Subtract", a=rest, b=total, out=result)
    b.alias(node, b.converted(result, out.dtype))


def _other_dims(node: Node, _: object) -> str | None:
    shape = bind(node)["normalized_shape"]
    return None if len(shape) == 1 else f"normalized_shape is {list(shape)}"


def _has_axis(node: Node, _: object) -> str | None:
    return None if bind(node)["self"].meta["val"].dim() else "self has rank 0"


_LAST: Final = Constraint("argument", "One dimension, the last, is normalized.", _other_dims)
_AXIS: Final = Constraint("rank", "self has a dimension.", _has_axis)


ROWS: Final = (
    operator_row(
        "native_layer_norm",
        _layer_norm,
        FLOAT_OPERANDS,
        SAME_DTYPES,
        _LAST,
        only_first_result("the runtime returns no statistics."),
    ),
    operator_row(
        "rms_norm",
        _rms_norm,
        FLOAT_OPERANDS,
        SAME_DTYPES,
        _LAST,
        preserved=True,
    ),
    operator_row("_softmax", _softmax, FLOAT_OPERANDS, _AXIS, note="half precision in float32"),
    operator_row("_log_softmax", _log_softmax, FLOAT_OPERANDS, _AXIS, note="in float32"),
)
