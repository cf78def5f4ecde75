# SPDX-License-Identifier: Apache-2.0
"""Logarithms over the whole range of float32, compared with those of float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import pytest
import torch
from torch.nn import functional

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.testing import compile_module, run_case, run_sizes
from delegatec.backends.vulkan.testing.grid import floats

Function = Callable[[torch.Tensor], torch.Tensor]

_RANDOM: Final = torch.Generator().manual_seed(0)
_BITS: Final = torch.randint(0, 0x7F7FFFFF, (4000,), generator=_RANDOM, dtype=torch.int32)
_NEAR_ZERO: Final = torch.randn(1000, generator=_RANDOM).sign() * torch.logspace(-30, -0.1, 1000)
_EDGES: Final = torch.tensor(
    [
        *(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, -0.99999994, 0.6, 0.59999996, 1.4, 1.4000001),
        *(
            2.0**-126,
            2.0**-127,
            2.0**-149,
            -(2.0**-149),
            torch.finfo(torch.float32).max,
            0.99999994,
            1.0000001,
        ),
        -3e38,
    ]
)
_POSITIVE: Final = torch.cat([_BITS.view(torch.float32), 1 + _NEAR_ZERO, _EDGES])
_ERROR: Final = 5e-7
"""Relative error of the reference executor; the runtime on a CPU has 8e-7."""


@pytest.mark.parametrize("stored_in", ["texture", "buffer"])
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (torch.log, _POSITIVE),
        (torch.log2, _POSITIVE),
        (torch.log10, _POSITIVE),
        (torch.log1p, torch.cat([_POSITIVE, _NEAR_ZERO, _POSITIVE - 1])),
        (torch.erf, _NEAR_ZERO),
        (torch.erfinv, _NEAR_ZERO[_NEAR_ZERO.abs() < 0.25]),
    ],
)
def test_the_whole_range(function: Function, x: torch.Tensor, stored_in: str) -> None:
    compiled = compile_module(Call(function), (x,), storage=stored_in)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    (result,) = compiled(x)
    expected = function(x.double())
    torch.testing.assert_close(result.double(), expected, rtol=_ERROR, atol=1e-44, equal_nan=True)
    assert result.isinf().equal(expected.isinf())


_FUNCTIONS: Final[Mapping[str, Function]] = {
    "softplus": functional.softplus,
    "mish": functional.mish,
    "logsigmoid": functional.logsigmoid,
    "asinh": torch.asinh,
    "logsumexp": lambda x: x.logsumexp(-1),
    "xlogy": lambda x: torch.xlogy(x, x.abs()),
    "of a scalar": lambda x: x.sum().abs().log(),
}


@pytest.mark.parametrize("options", [{}, {"storage": "buffer"}, {"precision": "fp16"}], ids=str)
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_logarithms(name: str, options: dict[str, str]) -> None:
    # exp(x), which softplus contains, is in the range of float16
    run_case(_FUNCTIONS[name], ((floats(3, 5, 8) * 9).clamp(max=11),), **options)


def test_sizes_that_are_dynamic() -> None:
    sizes = {0: torch.export.Dim("batch", min=1, max=5)}
    batches = [(floats(batch, 8, seed=batch) * 9,) for batch in (2, 5, 1)]
    run_sizes(lambda x: functional.softplus(x) + x.abs().log1p(), [sizes], batches)


def test_logarithms_of_integers_that_are_rounded_stay_outside() -> None:
    """Of buckets of relative positions, as T5 has them, the last digit decides those of powers of two."""

    def buckets(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        bucket = (torch.log(positions.float() / 8) / math.log(16) * 8).long()
        return x.exp() + bucket.clamp(min=0)

    x, positions = floats(128), torch.arange(1, 129)
    compiled = compile_module(Call(buckets), (x, positions))
    assert len(compiled.left) == 4 and "rounding" in str(compiled.left)
    torch.testing.assert_close(compiled(x, positions)[0], buckets(x, positions))
