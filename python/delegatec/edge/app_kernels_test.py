# SPDX-License-Identifier: Apache-2.0
"""Kernels of apps: their names, and the out variants of custom operators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError
from delegatec.edge.app_kernels import app_kernels, functional_of, is_custom, named_kernels
from delegatec.edge.out_variants import kernel_name, out_arguments, out_variant

_SCHEMAS = (
    "window(Tensor x, float alpha=2.) -> Tensor",
    "split(Tensor x, *, int[2] size=[1, 1]) -> (Tensor, Tensor)",
    "nothing() -> Tensor",
    "given(Tensor x) -> Tensor",
    "given.of(Tensor x, *, Tensor(a!) result) -> Tensor(a!)",
    "given.scaled(Tensor x, float scale) -> Tensor",
    "list(Tensor x) -> Tensor[]",
    "write(Tensor(a!) x) -> ()",
)


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    with torch.library._scoped_library("test_dsp", "FRAGMENT") as library:
        for schema in _SCHEMAS:
            library.define(schema)
        yield


@pytest.mark.parametrize(
    ("operator", "overload", "schema"),
    [
        ("window", "out", "window.out(Tensor x, float alpha=2., *, Tensor(a!) out) -> Tensor(a!)"),
        (
            "split",
            "both",
            "split.both(Tensor x, *, int[2] size=1, Tensor(a!) out0, Tensor(b!) out1) "
            "-> (Tensor(a!), Tensor(b!))",
        ),
        ("nothing", "out", "nothing.out(*, Tensor(a!) out) -> Tensor(a!)"),
        ("given", "of", "given.of(Tensor x, *, Tensor(a!) result) -> Tensor(a!)"),
    ],
)
def test_out_variants(operator: str, overload: str, schema: str) -> None:
    name = f"test_dsp::{operator}.{overload}"
    functional = getattr(torch.ops.test_dsp, operator).default
    assert out_variant(functional) is None
    with app_kernels([name, name]):
        assert named_kernels() == {name}
        found = out_variant(functional)
        assert found is not None and kernel_name(found) == name
        assert str(found._schema) == f"test_dsp::{schema}"
        assert len(out_arguments(found)) == len(functional._schema.returns)
        assert functional_of(found) is functional
    assert not named_kernels() and out_variant(functional) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("window.out", "is not the name of a kernel"),
        ("test_dsp::window", "is not the name of a kernel"),
        ("aten::add.out", "would replace one of the runtime"),
        ("test_dsp::windw.out", "is not registered\n.*\n.*did you mean 'window'"),
        ("test_none::window.out", "is not registered\n.*\n.*app_kernels"),
        ("test_dsp::given.scaled", "is not the out variant of an operator"),
        ("test_dsp::list.out", "has no out variant"),
        ("test_dsp::write.out", "has no out variant"),
    ],
)
def test_names_that_cannot_be(name: str, message: str) -> None:
    with pytest.raises(DelegatecError, match=message) as caught, app_kernels([name, "also wrong"]):
        pass
    assert [problem.code for problem in caught.value.diagnostics] == ["DC211"] * 2


def test_custom_operators() -> None:
    assert is_custom(torch.ops.test_dsp.window.default)
    assert not is_custom(torch.ops.aten.add.Tensor) and not is_custom(Tensor.add)
