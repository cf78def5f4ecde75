# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logical and bitwise operators."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import overload, variants
from delegatec.backends.mps.dtypes import INTEGERS
from delegatec.backends.mps.operators.elementwise.binary import arithmetic, operands_of
from delegatec.backends.mps.operators.elementwise.unary import unary
from delegatec.backends.mps.operators.family import family
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import promoted
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes


def _compared(node: Node) -> torch.dtype:
    """Returns the dtype that torch promotes operands to; int32 for bools."""
    dtype = promoted(operands_of(node))
    return torch.int32 if dtype == torch.bool else dtype


def _bool(_: Node) -> torch.dtype:
    return torch.bool


_BITS_RESULT: Final = result_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_BITS: Final = operand_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_COMPARISONS: Final = {name: name.capitalize() for name in ("eq", "ge", "gt", "le", "lt", "ne")}
_BITWISE: Final = {f"bitwise_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}
_LOGICAL: Final = {f"logical_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}

ROWS: Final = (
    *family(variants(_COMPARISONS, "Tensor", "Scalar"), partial(arithmetic, dtype=_compared)),
    *family(variants(_BITWISE, "Tensor", "Scalar"), arithmetic, _BITS_RESULT),
    *family(_LOGICAL, partial(arithmetic, dtype=_bool), note="operands become bool by comparison with zero"),
    *family({"bitwise_not": "BitwiseNot"}, unary, _BITS),
    OperatorRow(
        overload("logical_not"),
        unary(Operation.LogicalNot, _bool),
        note="a scalar becomes bool by comparison with zero",
    ),
)
