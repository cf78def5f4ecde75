# SPDX-License-Identifier: Apache-2.0
"""Ethos-U programs before Vela: their graphs on the host, and what each family rejects.

`tests/oracle/vela_test.py` compiles with Vela, which tests of packages do not have.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from delegatec.backends.arm.ethos_u import backend
from delegatec.backends.arm.ethos_u.backend import ETHOS_U
from delegatec.backends.arm.ethos_u.container import Compiled, Port
from delegatec.backends.arm.ethos_u.vela import VELA
from delegatec.backends.common.testing import Compiled as Program
from delegatec.backends.common.testing import compile_module
from delegatec.delegation import Estimates, LayerEstimate
from delegatec.diagnostics import DelegatecError, Diagnostic


class Arithmetic(torch.nn.Module):
    """Operators of every family."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y) * x


class Bits(torch.nn.Module):
    """An operator of U85 alone."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x & y


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
