# SPDX-License-Identifier: Apache-2.0
"""Holes of templates, and their contents.

A hole is written `{name}` or `{name:spec}`; digits at the end of a name tell holes of a kind apart, and
a name that occurs again has the same contents. Operands are lower-case letters:

    f  floating-point      m  float32 or float64    n  any number       i  integer
    b  bool                t  anything              w  a value that may be written to

with a rank (`{f@2}`, `{f@1-3}`, `{f@2+}`) and a relation to the first operand, `x` in specs: `~`
broadcasts with it, `=` has its dtype and shape. Capitals are new tensors: `{W:shape}` of x's dtype,
`{I:n;shape}` integers below n, `{R:n;shape}` likewise, `{B:shape}` bools. The rest are literals:

    int:expression    Python over `x`, previous holes, `r(low, high)`, `factors`, `permutation` and `wider`
    one:a|b|c         one of these                         dim, dims, keep, num, dtype    a dimension, ...
    body:a            an expression of `a` that has its shape and dtype
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from torch import Tensor

from tests.generated.program import HOLE

_NUMBERS: Final = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "-2",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-3.25",
    "0.1",
    "1e-3",
    "100",
    "7",
)
_RARE_NUMBERS: Final = ("math.inf", "-math.inf", "math.nan", "-0.0", "1e30", "True")
_DTYPES: Final = ("torch.float32", "torch.float32", "torch.float64", "torch.float16", "torch.bfloat16")
_INTEGER_DTYPES: Final = (
    "torch.int64",
    "torch.int32",
    "torch.float32",
    "torch.uint8",
    "torch.bool",
    "torch.float16",
)
_BODY: Final = (
    "{}.sin()",
    "({} + 1)",
    "({} * 0.5)",
    "{}.relu()",
    "{}.clone()",
    "({} - {})",
    "torch.where({} > 0, {}, 1)",
    "{}.clamp(-1, 2)",
    "-{}",
    "{}.flip(-1)",
    "({} * {})",
    "{}.tanh()",
    "{}.cumsum(0)",
    "({} + torch.ones_like({}))",
)

# Finds an operand: kind of the hole, its rank, its relation to `x`, and `x`; returns its name and its tensor.
Operand = Callable[[str, str, str, Tensor | None], tuple[str, Tensor]]
# Makes a new tensor: dtype like `x` ("W") or of the kind, shape, bound of integers.
Maker = Callable[[str, tuple[int, ...], int, Tensor], tuple[str, Tensor]]


def fill(template: str, random: Random, operand: Operand, maker: Maker) -> dict[str, str]:
    """Fills the holes of a template.

    Args:
        template: the template.
        random: the source of choices.
        operand: finds operands.
        maker: makes tensors.

    Returns:
        Hole -> text.

    Raises:
        LookupError, ValueError, TypeError, IndexError: there is no such operand, or no such literal for it.
    """
    fills: dict[str, str] = {}
    scope: dict[str, Any] = {
        "r": lambda low, high: random.randrange(low, max(high, low + 1)),
        "factors": lambda count: _factors(count, random),
        "permutation": lambda x: tuple(random.sample(range(x.dim()), x.dim())),
        "wider": lambda x: _wider(x, random),
        "math": math,
    }
    first: Tensor | None = None
    for match in sorted(HOLE.finditer(template), key=lambda match: _order(match[1])):
        name, spec = match[1], match[2] or ""
        if name in fills:
            continue
        kind = name.rstrip("0123456789")
        if len(kind) > 1:
            text, value = _literal(kind, spec[1:], random, scope, first)
        elif kind.isupper():
            assert first is not None or kind == "I" or kind == "R"
            bound, _, shape = spec[1:].rpartition(";")
            high = int(eval(bound, scope)) if bound else 0
            made = first if first is not None else _NO_TENSOR
            text, value = maker(kind, tuple(eval(shape, scope)), high, made)
        else:
            rank, relation = spec.removeprefix("@"), ""
            if rank[-1:] in ("~", "="):
                rank, relation = rank[:-1], rank[-1]
            text, value = operand(kind, rank, relation, first)
        if first is None and isinstance(value, Tensor):
            first = scope["x"] = value
        fills[name] = text
        scope[name] = value
    return fills


_NO_TENSOR: Final = Tensor()


def _order(hole: str) -> int:
    """Operands, then dimensions, then holes that depend on them."""
    kind = hole.rstrip("0123456789")
    return 0 if len(kind) == 1 and kind.islower() else 1 if kind == "dim" else 2


def _literal(
    kind: str, spec: str, random: Random, scope: Mapping[str, Any], first: Tensor | None
) -> tuple[str, Any]:
    rank = 0 if first is None else first.dim()
    match kind:
        case "int":
            value = eval(spec, dict(scope))
            return repr(value), value
        case "one":
            text = random.choice(spec.split("|"))
            return text, text
        case "keep":
            flag = random.random() < 0.5
            return str(flag), flag
        case "dim":
            dim = random.randrange(-rank, rank) if rank else random.choice((0, -1))
            return str(dim), dim
        case "dims":
            dims = tuple(random.sample(range(rank), random.randint(1, rank))) if rank else ()
            return str(dims), dims
        case "num":
            number = random.choice(_NUMBERS if random.random() < 0.96 else _RARE_NUMBERS)
            return number, number
        case "dtype":
            dtype = random.choice(_DTYPES if random.random() < 0.5 else _INTEGER_DTYPES)
            if first is not None and first.is_floating_point() and dtype not in _DTYPES:
                dtype = "torch.float32"  # a cast of fractions to integers is only defined in range
            return dtype, dtype
        case "body":
            text = spec
            for _ in range(random.randint(1, 3)):
                text = random.choice(_BODY).replace("{}", text)
            return text, text
    raise AssertionError(kind)


def _factors(count: int, random: Random) -> tuple[int, ...]:
    """Returns a shape of as many elements, sometimes with an inferred size."""
    if count == 0:
        return random.choice(((0, 3), (0,), (2, 0)))
    sizes: list[int] = []
    while count > 1:
        size = random.choice([each for each in range(2, count + 1) if count % each == 0])
        sizes.append(size)
        count //= size
    sizes.insert(random.randint(0, len(sizes)), 1)
    if random.random() < 0.5:
        sizes[random.randrange(len(sizes))] = -1
    return tuple(sizes)


def _wider(x: Tensor, random: Random) -> tuple[int, ...]:
    """Returns a shape that `x` expands to."""
    sizes = [random.randint(0, 3) if size == 1 else size for size in x.shape]
    return (*((2,) if random.random() < 0.5 else ()), *sizes)
