# SPDX-License-Identifier: Apache-2.0
"""Products by OpenBLAS are those of torch, and only in another process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from delegatec.frontend.eager import equal_products
from delegatec.frontend.eager.process import pristine

torch.manual_seed(0)
PRODUCTS = {
    "layer": lambda: nn.Linear(96, 128)(torch.randn(3, 50, 96)),
    "without bias": lambda: nn.Linear(96, 128, bias=False)(torch.randn(150, 96)),
    "columns": lambda: torch.randn(96, 150).t() @ torch.randn(128, 96).t(),
    "small": lambda: nn.Linear(4, 5)(torch.randn(3, 4)),
    "scaled": lambda: torch.addmm(
        torch.ones(()), torch.randn(150, 96), torch.randn(96, 128), beta=2, alpha=3
    ),
    "added integers": lambda: torch.addmm(
        torch.ones(3, 2, dtype=torch.int64), torch.arange(6).view(3, 2), torch.ones(2, 2, dtype=torch.int64)
    ),
    "double": lambda: nn.Linear(96, 128).double()(torch.randn(150, 96).double()),
    "complex": lambda: torch.randn(150, 96, dtype=torch.complex64) @ torch.randn(96, 128).cfloat().conj(),
    "nothing": lambda: torch.randn(0, 96) @ torch.randn(96, 128),
    "not a number": lambda: torch.full((150, 96), torch.nan) @ torch.randn(96, 128),
}


def _product(_: None, name: str) -> tuple[list[str], torch.Tensor]:
    torch.manual_seed(1)
    with torch.no_grad():
        result = PRODUCTS[name]()
    return [type(each).__name__ for each in equal_products._LIBRARIES], result


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, expected = _product(None, name)
    for variable, value in equal_products._PINS.items():
        monkeypatch.setenv(variable, value)
    with pristine() as process:
        libraries, result = process.run(_product, name)
    assert libraries == ["Library"] and not equal_products._LIBRARIES
    torch.testing.assert_close(result, expected, equal_nan=True, rtol=1e-5, atol=1e-5)


def test_the_pins_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    with pristine() as process:
        libraries, _ = process.run(_product, "small")
    assert not libraries


def test_only_within_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in equal_products._PINS.items():
        monkeypatch.setenv(name, value)
    with equal_products.openblas():
        assert _product(None, "columns")[0] == ["Library"]
        with equal_products.openblas():
            pass
        assert _product(None, "columns")[0] == ["Library"]
    libraries, result = _product(None, "columns")
    assert not libraries and result.shape == (150, 128)
