# SPDX-License-Identifier: Apache-2.0
"""Functions of all values of float16: formulas neither overflow nor lose the digits of small results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.interpret import interpret
from delegatec.edge.testing import edge
from delegatec.program.kernels.legalize import legalize

VALUES: Final = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
_LIMITS: Final = torch.finfo(torch.float16)


def _rows(x: Tensor) -> Tensor:
    return torch.stack([x, x * 0.5, x * 0.25], -1)


_UNARY: Final = (
    *(
        "acosh",
        "asinh",
        "atanh",
        "digamma",
        "erf",
        "erfc",
        "erfinv",
        "exp2",
        "expm1",
        "lgamma",
        "log10",
        "log1p",
    ),
    *("log2", "reciprocal", "rsqrt", "sigmoid", "sinc", "sinh", "square", "tan", "tanh"),
)
_ACTIVATIONS: Final = (
    *("celu", "elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "logsigmoid", "mish", "selu", "silu"),
    *("softplus", "softsign", "tanhshrink"),
)
FUNCTIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    **{name: getattr(torch, name) for name in _UNARY},
    **{name: getattr(functional, name) for name in _ACTIVATIONS},
    "entr": torch.special.entr,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "glu": lambda x: functional.glu(torch.stack([x, x]), 0),
    "hypot": lambda x: torch.hypot(x, x),
    "logaddexp": lambda x: torch.logaddexp(x, x),
    "power": lambda x: x.abs() ** 2.5,
    "reciprocal of a square": lambda x: x**-2,
    "cosine similarity": lambda x: functional.cosine_similarity(_rows(x), _rows(x) + 1),
    "deviation": lambda x: _rows(x).std(-1),
    "layer norm": lambda x: functional.layer_norm(_rows(x), [3]),
    "mean": lambda x: _rows(x).mean(-1),
    "norm": lambda x: _rows(x).norm(dim=-1),
    "normalized": lambda x: functional.normalize(_rows(x)),
    "rms norm": lambda x: functional.rms_norm(_rows(x), [3]),
    "softmax": lambda x: _rows(x).softmax(-1),
    "variance": lambda x: _rows(x).var(-1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager_mode(name: str) -> None:
    function = FUNCTIONS[name]
    program = edge(function, VALUES, preserve=KERNEL_COMPOSITES)
    legalize(program)
    (result,) = interpret(program, [VALUES])
    torch.testing.assert_close(
        result,
        function(VALUES),
        rtol=8 * _LIMITS.eps,
        atol=8 * _LIMITS.smallest_normal * _LIMITS.eps,
        equal_nan=True,
    )
