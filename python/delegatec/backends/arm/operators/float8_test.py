# SPDX-License-Identifier: Apache-2.0
"""8-bit float types: moved, converted and summed, if the specification has their extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.common.testing import Call, compile_module

_TYPES = [(torch.float8_e4m3fn, "fp8e4m3", DType.FP8E4M3), (torch.float8_e5m2, "fp8e5m2", DType.FP8E5M2)]
_X = torch.tensor([[0.5, -1.75, 3.0], [448.0, -0.001, 0.0]])


def _blob(function: Callable[..., Any], specification: str, *args: torch.Tensor) -> Any:
    compiled = compile_module("tosa", Call(function), args, specification=specification)
    assert compiled.left == []
    (blob,) = compiled.blobs()
    return compiled, read_blob(memoryview(blob))


@pytest.mark.parametrize(("dtype", "extension", "type_"), _TYPES, ids=["e4m3", "e5m2"])
def test_values_are_converted_and_moved(dtype: torch.dtype, extension: str, type_: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.to(dtype), x.to(dtype)]).to(torch.float32) + 1

    compiled, graph = _blob(function, f"TOSA-1.0+FP+{extension}", _X)
    (concat,) = (each for each in graph.operations if each.name == "CONCAT")
    assert concat.outputs[0].dtype == type_
    for x in (_X, torch.tensor([[1000.0, -torch.inf, 465.0], [torch.inf, -449.0, torch.nan]])):
        torch.testing.assert_close(compiled(x)[0], function(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("dtype", "extension", "type_"), _TYPES, ids=["e4m3", "e5m2"])
def test_products_are_summed_in_float16(dtype: torch.dtype, extension: str, type_: int) -> None:
    args = (_X.to(dtype), _X.T.contiguous().to(dtype))
    _, graph = _blob(torch.mm, f"TOSA-1.0+FP+{extension}", *args)
    (product,) = (each for each in graph.operations if each.name == "MATMUL")
    assert (product.inputs[0].dtype, product.outputs[0].dtype) == (type_, DType.FP16)
    assert graph.outputs[0].dtype == type_


@pytest.mark.parametrize(("dtype", "extension", "type_"), _TYPES, ids=["e4m3", "e5m2"])
def test_maxima_with_dilation_are_in_float16(dtype: torch.dtype, extension: str, type_: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(x.to(dtype), 3, 1, 1, 2)

    x = torch.linspace(-3, 3, 64).sin().view(1, 1, 8, 8)
    compiled, graph = _blob(function, f"TOSA-1.0+FP+{extension}", x)
    assert graph.outputs[0].dtype == type_
    kinds = {each.inputs[0].dtype for each in graph.operations if each.name == "MAXIMUM"}
    assert kinds == {DType.FP16}
    wanted = torch.nn.functional.max_pool2d(x.to(dtype).to(torch.float32), 3, 1, 1, 2)
    assert torch.equal(compiled(x)[0].to(torch.float32), wanted)


def test_it_needs_the_extension() -> None:
    compiled = compile_module("tosa", Call(lambda x: x.to(torch.float8_e5m2)), (_X,))
    ((name, _, message),) = compiled.left
    assert name == "aten._to_copy.default"
    assert "needs the extension fp8e5m2" in message
    both = compile_module(
        "tosa",
        Call(lambda x: x.to(torch.float8_e5m2)),
        (_X.bfloat16(),),
        specification="TOSA-1.0+FP+fp8e5m2",
    )
    assert "needs the extension bf16 and fp8e5m2" in both.left[0][2]
