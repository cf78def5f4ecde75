# SPDX-License-Identifier: Apache-2.0
"""Powers."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.operators.elementwise.binary import arithmetic
from delegatec.backends.mps.operators.family import family
from delegatec.backends.mps.operators.row import ByFacts, Constraint
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rules.powers import is_simple


def _unsupported_scalar(node: Node, _: object) -> str | None:
    base = bind(node)["self"]
    return None if isinstance(base, Node) or (base > 0 and base != 2) else f"the base is {base}"


def _signed(node: Node, facts: Facts) -> str | None:
    base = bind(node)["self"]
    return None if not isinstance(base, Node) or facts.of(base).low >= 0 else "the base may be negative"


def _simple_exponent(node: Node, _: object) -> str | None:
    exponent = bind(node)["exponent"]
    return None if isinstance(exponent, Node) or not is_simple(exponent) else f"the exponent is {exponent}"


_FLOAT_RESULT: Final = result_dtypes(FLOATS, "MPSGraph computes powers in floating point only.")
_SCALAR: Final = Constraint("argument", "A scalar base is positive, and not 2.", _unsupported_scalar)
_NOT_NEGATIVE: Final = ByFacts(
    "value",
    "The base is not negative, such as an absolute value: Metal's fast `pow` of a negative base is NaN, and "
    "it is not documented which `pow` MPSGraph uses.",
    _signed,
)
_EXPONENT: Final = Constraint(
    "argument", "The exponent does not have a simpler form: a root, or at most 32 products.", _simple_exponent
)

ROWS: Final = family(
    dict.fromkeys(("pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor"), "Pow"),
    arithmetic,
    _FLOAT_RESULT,
    _SCALAR,
    _EXPONENT,
    known=(_NOT_NEGATIVE,),
)
