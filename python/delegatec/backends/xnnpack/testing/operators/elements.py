# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions, and activations."""

from __future__ import annotations

import math
from typing import Final

import torch

from delegatec.backends.common.testing import X, Y
from delegatec.backends.xnnpack.testing.operators.case import Case

functional = torch.nn.functional
_BATCH: Final = torch.export.Dim("batch", min=2, max=64)
_POSITIVE: Final = X.abs() + 0.1
_POLES: Final = torch.arange(-9, 10, 2) * (math.pi / 2)
_NEAR_POLES: Final = _POLES[:, None] + torch.tensor([-0.03, -1e-3, 1e-4, 0.01])
_WIDE: Final = X * 5

CASES: Final[dict[str, Case]] = {
    "abs": Case(torch.abs, (X,), "Absolute"),
    "ceil": Case(torch.ceil, (_WIDE,), "Ceiling"),
    "cos": Case(torch.cos, (_WIDE,), "Cos"),
    "exp": Case(torch.exp, (X,), "Exp"),
    "exp of much": Case(torch.exp, (torch.linspace(-12, 11, 300),), half=1e-3),
    "floor": Case(torch.floor, (_WIDE,), "Floor"),
    "log": Case(torch.log, (_POSITIVE,), "Log"),
    "neg": Case(torch.neg, (X,), "Negate"),
    "reciprocal": Case(torch.reciprocal, (_POSITIVE,), "Divide"),
    "rsqrt": Case(torch.rsqrt, (_POSITIVE,), "SquareRoot Divide"),
    "rsqrt of zero": Case(torch.rsqrt, (X.relu(),), "SquareRoot Divide"),
    "rsqrt of a sum": Case(lambda x: (x + 1e-5).rsqrt(), (_POSITIVE,), "Add ReciprocalSquareRoot"),
    "sigmoid": Case(torch.sigmoid, (_WIDE,), "Sigmoid"),
    # the error of XNNPACK's cosine is absolute, and its quotient was wrong by 5e-6
    "tan near poles": Case(torch.tan, (_NEAR_POLES,), rtol=1e-6, half=None),
    "sin": Case(torch.sin, (_WIDE,), "Sin"),
    "sqrt": Case(torch.sqrt, (_POSITIVE,), "SquareRoot"),
    "square": Case(torch.square, (X,), "Square"),
    "tanh": Case(torch.tanh, (_WIDE,), "Tanh"),
    "erf": Case(torch.erf, (torch.linspace(-5, 5, 101),)),
    "exp2": Case(torch.exp2, (_WIDE,), half=1e-3),
    "power": Case(lambda x: x**1.7, (_POSITIVE,), half=1e-3),
    "power-of-number": Case(lambda x: 2.5**x, (_WIDE,), half=1e-3),
    "mean-position": Case(lambda x: (x.softmax(-1) * torch.arange(4)).sum(-1), (X,)),
    "constant-integers": Case(
        lambda x: torch.arange(4) - x.div(torch.arange(1, 5)).add(torch.arange(4), alpha=2), (X,)
    ),
    "round": Case(torch.round, (torch.tensor([0.5, 1.5, -2.5, 2.4999, 700.5, -3.0, 2049.0, 0.0]),)),
    "sign": Case(torch.sign, (torch.tensor([0.5, -1e-4, 0.0, -0.0, 65504.0, -math.inf]),)),
    "triangles": Case(lambda x: (x.neg().tril(), x.neg().triu(1)), (X,)),
    # activations
    "relu": Case(torch.relu, (X,), "Clamp"),
    "relu6": Case(functional.relu6, (X * 10,), "Clamp"),
    "hardtanh": Case(functional.hardtanh, (_WIDE,), "Clamp"),
    "clamp": Case(lambda x: x.clamp(-0.3, 0.2), (X,), "Clamp"),
    "clamp-one-side": Case(lambda x: x.clamp(max=0), (X,), "Clamp"),
    "clamp-reversed": Case(lambda x: x.clamp(0.5, 0.2), (X,), "Clamp Subtract Add"),
    "gelu": Case(functional.gelu, (_WIDE,), "Gelu"),
    "gelu-tanh": Case(lambda x: functional.gelu(x, approximate="tanh"), (_WIDE,)),
    "hardswish": Case(functional.hardswish, (_WIDE,), "HardSwish"),
    "hardsigmoid": Case(functional.hardsigmoid, (_WIDE,), "Add Multiply"),
    "leaky-relu": Case(lambda x: functional.leaky_relu(x, 0.2), (X,), "LeakyRelu"),
    "elu": Case(lambda x: functional.elu(x, 0.7), (_WIDE,), "Elu"),
    "selu": Case(functional.selu, (_WIDE,), "Elu Multiply"),
    "silu": Case(functional.silu, (_WIDE,), "Sigmoid Multiply"),
    "softplus": Case(functional.softplus, (_WIDE,)),
    "glu": Case(functional.glu, (X,)),
    # two operands
    "add": Case(torch.add, (X, Y), "Add"),
    "add-broadcast": Case(torch.add, (X, Y[:, :1, :1]), "Add"),
    "add-rows": Case(torch.add, (X, Y[0, 0]), "Add", ({0: _BATCH}, {}), ((X.repeat(9, 1, 1), Y[0, 0]),)),
    "add-alpha": Case(lambda x, y: torch.add(x, y, alpha=3), (X, Y), "Multiply Add"),
    "sub": Case(torch.sub, (X, Y), "Subtract"),
    "sub-alpha": Case(lambda x, y: torch.sub(x, y, alpha=0.5), (X, Y), "Multiply Subtract"),
    "mul": Case(torch.mul, (X, Y), "Multiply"),
    "div": Case(torch.div, (X, _POSITIVE), "Divide"),
    "maximum": Case(torch.maximum, (X, Y), "Maximum"),
    "minimum": Case(torch.minimum, (X, Y), "Minimum"),
    "numbers": Case(lambda x: 2 * x + 1.5, (X,), "Multiply Add"),
    "numbers-reversed": Case(lambda x: 3 - x / 4, (X,), "Divide Subtract"),
    "rsub-alpha": Case(lambda x: torch.rsub(x, 2.0, alpha=3), (X,), "Multiply Subtract"),
    "rank-0": Case(torch.mul, (torch.tensor(2.0), torch.tensor(3.0)), "Multiply"),
    "with-a-bool": Case(lambda x, y: x * (y > 0), (X, Y)),
}
