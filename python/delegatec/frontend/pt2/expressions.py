# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: a bounded subset of torch's expressions, such as `Mul(Integer(2), Symbol('s0'))`.

torch evaluates such a text as Python code, also `9**9**9**9`. Here the text is parsed, and every operation is
looked up and bounded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Final

import sympy
from torch.utils._sympy import functions

from delegatec.frontend.pt2.fields import MalformedError, fail

_LONGEST: Final = 20_000
_MOST_NODES: Final = 2_000
_DEEPEST: Final = 60
_LARGEST: Final = 2**63
_LARGEST_DEGREE: Final = 32
# Max and Min compare their arguments pairwise.
_MOST_ARGUMENTS: Final = 64
SYMBOL: Final = re.compile(r"(s|u|zf|zuf)\d{1,6}")
_ASSUMPTIONS: Final = frozenset({"integer", "positive", "nonnegative", "negative", "nonpositive", "real"})

_RELATIONS: Final = (
    "Equality",
    "Unequality",
    "GreaterThan",
    "LessThan",
    "StrictGreaterThan",
    "StrictLessThan",
)
_DIVISIONS: Final = ("FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "IntTrueDiv", "FloatTrueDiv")
_CONVERSIONS: Final = (
    "CeilToInt",
    "FloorToInt",
    "RoundToInt",
    "TruncToInt",
    "ToFloat",
    "TruncToFloat",
    "Identity",
)
# Name -> function, least and greatest number of arguments.
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], int, int]]] = {
    **{each: (getattr(sympy, each), 1, _MOST_ARGUMENTS) for each in ("Add", "Mul", "And", "Or")},
    **{each: (getattr(functions, each), 1, _MOST_ARGUMENTS) for each in ("Max", "Min")},
    **{each: (getattr(sympy, each), 2, 2) for each in _RELATIONS},
    **{each: (getattr(functions, each), 2, 2) for each in (*_DIVISIONS, "FloatPow")},
    **{each: (getattr(functions, each), 1, 1) for each in _CONVERSIONS},
    "Not": (sympy.Not, 1, 1),
    "Where": (functions.Where, 3, 3),
    "ModularIndexing": (functions.ModularIndexing, 3, 3),
    "ExprCondPair": (sympy.functions.elementary.piecewise.ExprCondPair, 2, 2),
    "Piecewise": (sympy.Piecewise, 1, _MOST_ARGUMENTS),
}
_POWERS: Final = {"Pow": sympy.Pow, "PowByNatural": functions.PowByNatural}
_CONSTANTS: Final = {"true": sympy.true, "false": sympy.false}


def parse_expression(text: str) -> Any:
    """Returns the sympy expression of a text.

    Raises:
        MalformedError: it is not one of the supported expressions, or is too large.
    """
    if len(text) > _LONGEST:
        fail("a symbolic size is too long")
    try:
        tree = ast.parse(text, mode="eval")
        if sum(1 for _ in ast.walk(tree)) > 4 * _MOST_NODES:
            fail("a symbolic size is too long")
        return _expression(tree.body, 0)
    except MalformedError:
        raise
    except (SyntaxError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
        raise MalformedError(f"invalid symbolic size: {text[:60]}") from error
    except (MemoryError, RecursionError) as error:
        raise MalformedError("a symbolic size is nested too deeply") from error


def _expression(node: ast.expr, depth: int) -> Any:
    if depth > _DEEPEST:
        fail("a symbolic size is nested too deeply")
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        fail(f"unsupported part of a symbolic size: {type(node).__name__}")
    function = node.func.id
    if function == "Symbol":
        return _symbol(node)
    if node.keywords and function != "Float":
        fail(f"unsupported part of a symbolic size: {function}")
    if function in ("Integer", "Rational", "Float"):
        return _number(function, node)
    arguments = [_expression(each, depth + 1) for each in node.args]
    if function in _POWERS and len(arguments) == 2:
        base, power = arguments
        if not (isinstance(power, sympy.Integer) and 0 <= power * _degree(base) <= _LARGEST_DEGREE):
            fail("unsupported power in a symbolic size")
        return _bounded(_POWERS[function](*arguments))
    if function not in _FUNCTIONS:
        fail(f"unsupported part of a symbolic size: {function}")
    create, least, most = _FUNCTIONS[function]
    if not least <= len(arguments) <= most:
        fail(f"unsupported number of arguments in a symbolic size: {function}")
    return _bounded(create(*arguments))


def _symbol(node: ast.Call) -> Any:
    assumptions = {}
    for item in node.keywords:
        if item.arg not in _ASSUMPTIONS or not (
            isinstance(item.value, ast.Constant) and type(item.value.value) is bool
        ):
            fail("unsupported assumption about a symbol")
        assumptions[item.arg] = item.value.value
    found = [each.value for each in node.args if isinstance(each, ast.Constant)]
    if len(node.args) != 1 or len(found) != 1 or type(found[0]) is not str or not SYMBOL.fullmatch(found[0]):
        fail("invalid name of a symbol")
    return sympy.Symbol(found[0], **assumptions)


def _number(function: str, node: ast.Call) -> Any:
    literals = []
    for each in node.args:
        sign = 1
        if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub):
            sign, each = -1, each.operand
        if not isinstance(each, ast.Constant):
            fail("invalid constant in a symbolic size")
        literals.append((sign, each.value))
    if function == "Float":
        # Its precision, a keyword, is always that of a double.
        ((sign, digits),) = literals
        if type(digits) is not str or len(digits) > 40:
            fail("invalid constant in a symbolic size")
        return _bounded(sympy.Float(sign * float(digits)))
    values = [sign * value for sign, value in literals if type(value) is int and value <= _LARGEST]
    if len(values) != len(literals) or len(values) != (1 if function == "Integer" else 2):
        fail("invalid constant in a symbolic size")
    if function == "Integer":
        return sympy.Integer(values[0])
    return sympy.Rational(*values) if values[1] else fail("invalid constant in a symbolic size")


def _degree(expression: Any) -> int:
    """Returns the product of the exponents of nested powers."""
    inner: int = max(map(_degree, expression.args), default=1)
    return inner * int(expression.args[1]) if type(expression) in _POWERS.values() else inner


def _bounded(value: Any) -> Any:
    """Checks that an intermediate result has no infinite or huge number, also as a factor."""
    if value is sympy.nan or any(
        number.is_finite is False or abs(number) > _LARGEST for number in value.atoms(sympy.Number)
    ):
        fail("a symbolic size is too large")
    return value
