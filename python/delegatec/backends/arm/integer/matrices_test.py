# SPDX-License-Identifier: Apache-2.0
"""Products of two quantized matrices, for targets with and without such products of int16."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.convert import converted
from delegatec.backends.arm.integer.features import ALL, Features
from delegatec.backends.arm.integer.testing import CALLS, calls, check, dequantize, quantize, quantized_values
from delegatec.backends.common.testing import Call
from delegatec.edge import to_edge
from delegatec.edge.analysis.facts import Facts

aten = torch.ops.aten

_NARROW: Final = Features(wide_products=False)
_X_SCALE: Final = 1e-3
_Y_SCALE: Final = 2e-3
_SHAPES: Final = {
    "matrices": ((4, 7), (7, 5)),
    "one product": ((4, 1), (1, 5)),
    "long rows": ((3, 3000), (3000, 4)),
    "parts": ((50, 200), (200, 100)),
    "batches": ((3, 4, 7), (3, 7, 5)),
    "batches of batches": ((2, 3, 4, 5), (2, 3, 5, 6)),
}


def _product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiplies; the range is that of products of random quantized values."""
    one, two = dequantize(x, _X_SCALE, 0), dequantize(y, _Y_SCALE, 0)
    scale = _X_SCALE * _Y_SCALE * 32768 * 3 * x.shape[-1] ** 0.5
    return quantize(one @ two, scale, 0, torch.int16)  # type: ignore[no-any-return]


@pytest.mark.parametrize("features", [ALL, _NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", _SHAPES)
def test_int16(name: str, features: Features) -> None:
    x, y = (
        quantized_values(*shape, dtype=torch.int16, seed=seed) for seed, shape in enumerate(_SHAPES[name])
    )
    found = calls(check(_product, x, y, features=features))
    assert (TOSA.matmul.default in found) == (features is ALL)
    assert found.count(aten.mul.Tensor) == (0 if features is ALL else 4 if name == "parts" else 1)


def test_int8_with_int16() -> None:
    x, y = quantized_values(4, 7), quantized_values(7, 5, dtype=torch.int16)

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = dequantize(x, 0.02, -9) @ dequantize(y, _Y_SCALE)
        return quantize(found, 0.01, 0, torch.int16)  # type: ignore[no-any-return]

    for features in (ALL, _NARROW):
        check(product, x, y, features=features)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (2.5, 1), (1, -0.5), (-2, 3)])
@pytest.mark.parametrize("shape", [(4, 5), (5,)], ids=str)
@pytest.mark.parametrize("features", [ALL, _NARROW], ids=["wide", "narrow"])
def test_sums_with_factors(alpha: float, beta: float, shape: tuple[int, ...], features: Features) -> None:
    def function(term: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        operands = (dequantize(term, 0.05), dequantize(x, _X_SCALE), dequantize(y, _Y_SCALE))
        found = torch.addmm(*operands, alpha=alpha, beta=beta)
        return quantize(found, 0.2, 0, torch.int16)  # type: ignore[no-any-return]

    shapes = (shape, (4, 7), (7, 5))
    operands = [quantized_values(*each, dtype=torch.int16, seed=seed) for seed, each in enumerate(shapes)]
    check(function, *operands, features=features)


@pytest.mark.parametrize("features", [ALL, _NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16], ids=str)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
@pytest.mark.parametrize("name", ["batches", "batches of batches"])
def test_batches_of_constants(name: str, is_first: bool, dtype: torch.dtype, features: Features) -> None:
    """Each matrix is another weight, and the zero point is any quantized value."""
    shapes = _SHAPES[name] if is_first else (_SHAPES[name][1], _SHAPES[name][0])
    x = quantized_values(*shapes[1], dtype=torch.int16, seed=1)
    constant, zero = quantized_values(*shapes[0], dtype=dtype), -9 if dtype == torch.int8 else 0

    def function(x: torch.Tensor) -> torch.Tensor:
        fixed, dynamic = dequantize(constant, _Y_SCALE, zero), dequantize(x, _X_SCALE)
        found = fixed @ dynamic if is_first else dynamic @ fixed
        return quantize(found, 0.02 if dtype == torch.int8 else 4.0, 0, torch.int16)  # type: ignore[no-any-return]

    check(function, x, features=features)


def test_too_many_products() -> None:
    x, y = quantized_values(300, 512, dtype=torch.int16), quantized_values(512, 600, dtype=torch.int16)
    program = to_edge(torch.export.export(Call(_product), (x, y)), preserve=CALLS)
    found = converted(program, Facts(program.fixed_constants()), _NARROW)
    assert (
        next(iter(found.reasons.values())) == "a product of int16 matrices with 92160000 products of elements"
    )
