# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation, UnaryT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand
from delegatec.backends.mps.dtypes import FLOATS, NUMBERS
from delegatec.backends.mps.operators.elementwise.elementary import (
    absolute,
    bounded,
    rounded,
    truncated,
)
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of, shape_of


def unary(operation: int) -> Lower:
    """output = f(self), computed in the dtype of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        source = b.operand(bind(node)["self"], dtype_of(node))
        b.emit(operation, UnaryT(input1Id=source, outputId=b.result(node)))

    return lower


def _composed(function: Callable[[Expression], Expression]) -> Lower:
    """output = f(self), composed in the dtype of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        function(operand(b, bind(node)["self"], dtype_of(node))).bind(node)

    return lower


def _rounding(function: Callable[[Expression], Expression]) -> Lower:
    """To integers: nothing to do for those, for which MPSGraph has no kernels."""
    return _composed(lambda x: function(x) if x.dtype.is_floating_point else x)


def _step(operation: int) -> Callable[[Expression], Expression]:
    return lambda x: x.unary(operation)


def _property(operation: int) -> Lower:
    """Whether a float is something that no integer is."""

    def lower(b: GraphBuilder, node: Node) -> None:
        x = operand(b, bind(node)["self"])
        if x.dtype.is_floating_point:
            x.unary(operation, torch.bool).bind(node)
        else:
            full(b, shape_of(node), 0, torch.int32).to(torch.bool).bind(node)

    return lower


def _sign(x: Expression) -> Expression:
    """Of integers by a clamp: MPSGraph has no sign of int64."""
    return x.unary(Operation.Sign) if x.dtype.is_floating_point else x.clamp(-1, 1)


def _logit(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = operand(b, bound["self"], dtype_of(node)).to(torch.float32)
    if bound["eps"] is not None:
        low = torch.tensor(bound["eps"], dtype=torch.float32)
        x = bounded(x, low.item(), (1 - low).item())
    (x / (1.0 - x)).unary(Operation.Log).to(dtype_of(node)).bind(node)


def _inverted_bounds(node: Node, _: object) -> str | None:
    eps = bind(node)["eps"]
    return None if eps is None or eps <= 0.5 else f"eps is {eps}"


_FLOAT_FUNCTIONS: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2"),
    *("log", "log10", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"
)
_NUMBER_RESULT: Final = result_dtypes(NUMBERS, "MPSGraph has no arithmetic on bool.", "convert to int32")
_CONSTANT: Final = "of integers it does nothing, as MPSGraph has no kernels for them"

ROWS: Final = (
    *family({name: name.capitalize() for name in _FLOAT_FUNCTIONS}, unary, _FLOAT_RESULT),
    *family({"neg": "Neg"}, unary, _NUMBER_RESULT),
    OperatorRow(
        overload("abs"),
        ("Abs", "Lt", "Neg", "Where"),
        _composed(absolute),
        (_NUMBER_RESULT,),
        note="of integers a choice, which is exact for large ones too",
    ),
    OperatorRow(
        overload("sign"),
        ("Sign", "Clamp"),
        _composed(_sign),
        (_NUMBER_RESULT,),
        note="of integers a clamp: MPSGraph has no sign of int64; that of NaN is zero in ATen, as in Metal",
    ),
    OperatorRow(overload("ceil"), ("Ceil",), _rounding(_step(Operation.Ceil)), note=_CONSTANT),
    OperatorRow(overload("floor"), ("Floor",), _rounding(_step(Operation.Floor)), note=_CONSTANT),
    OperatorRow(
        overload("round"),
        ("Round", "Sub", "Abs", "Eq", "Mul", "Where"),
        _rounding(rounded),
        note=f"halves go to the even neighbour, whatever MPSGraph does with them; {_CONSTANT}",
    ),
    OperatorRow(overload("trunc"), ("Ceil", "Floor", "Lt", "Where"), _rounding(truncated), note=_CONSTANT),
    *(
        OperatorRow(
            overload(name),
            (name.capitalize(), "Full", "Ne"),
            _property(getattr(Operation, name.capitalize())),
            note="false for integers",
        )
        for name in ("isinf", "isnan")
    ),
    OperatorRow(
        overload("logit"),
        ("HardTanh", "Sub", "Div", "Log"),
        _logit,
        (
            _FLOAT_RESULT,
            Constraint("argument", "eps is 0.5 at most, so that the bounds are in order.", _inverted_bounds),
        ),
    ),
)
