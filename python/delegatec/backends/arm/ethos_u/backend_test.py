# SPDX-License-Identifier: Apache-2.0
"""Ethos-U programs before Vela: their graphs on the host, and the operators that each family rejects.

`tests/oracle/vela_test.py` compiles with Vela, which tests of packages do not have.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.ethos_u import backend
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.ethos_u.container import Compiled, Port
from delegatec.backends.arm.ethos_u.vela import VELA
from delegatec.backends.common.testing import Compiled as Program
from delegatec.backends.common.testing import compile_module
from delegatec.delegation import Estimates, LayerEstimate
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.quantization.operators import quantized


class Arithmetic(torch.nn.Module):
    """Operators of every family."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y) * x


class Bits(torch.nn.Module):
    """An operator of U85 alone."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x & y


class Patches(torch.nn.Module):
    """A quantized convolution with padding and strides above 3."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        quantized_values = torch.randint(-127, 128, (6, 3, 5, 5), generator=generator, dtype=torch.int8)
        self.register_buffer("quantized_values", quantized_values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = quantized.dequantize_per_tensor(x, 0.02, 5, -128, 127, torch.int8)
        weight = quantized.dequantize_per_tensor(self.quantized_values, 0.01, 0, -127, 127, torch.int8)
        y = torch.nn.functional.conv2d(x, weight, stride=(4, 5), padding=2)
        result: torch.Tensor = quantized.quantize_per_tensor(y, 0.05, -3, -128, 127, torch.int8)
        return result


_ARGS = (torch.arange(12, dtype=torch.int32).reshape(3, 4), torch.full((3, 4), 7, dtype=torch.int32))


def _compiled(module: torch.nn.Module, **options: str) -> Program:
    return compile_module("ethos_u", module, _ARGS, ETHOS_U.preserved_operators(), **options)


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_a_graph_runs_on_the_host(accelerator: str) -> None:
    compiled = _compiled(Arithmetic(), accelerator=accelerator, stage="tosa")
    assert (len(compiled.delegates), compiled.left) == (1, [])
    (result,) = compiled(*_ARGS)
    assert torch.equal(result, (_ARGS[0] + _ARGS[1]) * _ARGS[0])
    (blob,) = compiled.blobs()
    assert "ADD" in ETHOS_U.describe(memoryview(blob))


@pytest.mark.parametrize(
    ("accelerator", "delegates"), [("ethos-u55-128", 0), ("ethos-u65-256", 0), ("ethos-u85-256", 1)]
)
def test_operators_of_one_family(accelerator: str, delegates: int) -> None:
    compiled = _compiled(Bits(), accelerator=accelerator, stage="tosa")
    assert len(compiled.delegates) == delegates


@pytest.mark.parametrize(
    ("accelerator", "operators"),
    [
        ("ethos-u55-128", ["PAD", "CONV2D"]),
        ("ethos-u65-256", ["PAD", "CONV2D"]),
        ("ethos-u85-256", ["CONV2D"]),
    ],
)
def test_greater_strides_are_supported_without_padding(accelerator: str, operators: list[str]) -> None:
    module = Patches()
    x = torch.arange(3 * 20 * 22).remainder(251).sub(120).to(torch.int8).reshape(1, 3, 20, 22)
    compiled = compile_module(
        "ethos_u", module, (x,), ETHOS_U.preserved_operators(), accelerator=accelerator, stage="tosa"
    )
    (blob,) = compiled.blobs()
    found = [each.name for each in read_blob(memoryview(blob)).operations]
    assert [each for each in found if each in ("PAD", "CONV2D")] == operators
    (result,) = compiled(x)
    assert int((result.int() - module(x).int()).abs().max()) <= 1
    assert int(result.int().abs().max()) > 20


def test_without_vela() -> None:
    missing = DelegatecError([Diagnostic("DC430", "Vela is not installed")])
    with patch.object(type(VELA), "directory", side_effect=missing), pytest.raises(DelegatecError) as raised:
        _compiled(Arithmetic())
    assert [each.code for each in raised.value.diagnostics] == ["DC430"]


def test_a_command_stream_has_estimates_and_runs_on_the_npu_only() -> None:
    port = Port((1, 1, 1, 1, 3, 4), 4, 0, 1)
    stream = Compiled(memoryview(b"COP1"), memoryview(b""), 48, (port, port), (port,))
    estimates = Estimates("Vela", {"cycles": 12}, (LayerEstimate("mul", "Mul", {"cycles": 12}),))
    with patch.object(backend, "compile_graph", lambda *_: (stream, estimates)):
        compiled = _compiled(Arithmetic())
    (delegate,) = compiled.delegates
    assert delegate.estimates == estimates
    assert list(delegate.debug_handle_map) == ["mul"]
    with pytest.raises(DelegatecError) as raised:
        compiled(*_ARGS)
    assert [each.code for each in raised.value.diagnostics] == ["DC501"]
    with pytest.raises(DelegatecError) as raised:
        ETHOS_U.describe(memoryview(delegate.blob_bytes()))
    assert [each.code for each in raised.value.diagnostics] == ["DC407"]
