# SPDX-License-Identifier: Apache-2.0
"""Custom operators, whose kernels an app registers: those of the wheel's libraries, in its runtime."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path

import executorch
import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.backends import builtin_backends
from delegatec.edge.app_kernels import app_kernels
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify.verification import verify_program
from tests.oracle.oracle import OracleProgram

_LIBRARY = "extension/llm/custom_ops/libcustom_ops_aot_lib.so"
_KERNELS = ["llama::custom_sdpa.out", "llama::fast_hadamard_transform.out"]
_HEADS, _WIDTH, _ROWS = 2, 16, 8


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    """Registers the operators in torch, and their kernels in the runtime, like an app."""
    torch.ops.load_library(str(Path(executorch.__path__[0]) / _LIBRARY))
    with torch.library._scoped_library("llama", "FRAGMENT") as library:
        library.impl("custom_sdpa", lambda query, *_, **__: torch.empty_like(query), "Meta")
        library.impl("fast_hadamard_transform", torch.empty_like, "Meta")
        yield


class _Attention(torch.nn.Module):
    """Layers around kernels of the app: delegates on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(_WIDTH, 3 * _WIDTH * _HEADS)
        self.out = torch.nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, keys, values = self.project(x).view(1, x.shape[1], 3, _HEADS, _WIDTH).unbind(2)
        found = torch.ops.llama.custom_sdpa(query, keys, values, 0, None, 0.0, True)
        turned = torch.ops.llama.fast_hadamard_transform(found.reshape(1, x.shape[1], -1, _WIDTH))
        return self.out(turned) / math.sqrt(_WIDTH)


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_they_run_in_the_runtime(backend: str, tmp_path: Path) -> None:
    module = _Attention().eval()
    shapes = ({1: Dim("rows", min=1, max=_ROWS)},)

    def exported() -> dict[str, torch.export.ExportedProgram]:
        return export(Model(module, (torch.rand(1, 3, _WIDTH),), dynamic_shapes=shapes))

    file = io.BytesIO()
    write_program(lower(exported(), backend, kernels=_KERNELS).emitted, file)
    method = parse_program(file.getvalue()).method("forward")
    assert set(_KERNELS) <= set(method.operators)
    assert len(method.delegates) == (0 if backend == "portable" else 2)
    oracle = OracleProgram(file.getvalue())
    for rows in (1, 3, _ROWS):
        x = torch.rand(1, rows, _WIDTH)
        with torch.no_grad():
            torch.testing.assert_close(oracle.run([x])[0], module(x), rtol=1e-5, atol=1e-5)
    path = tmp_path / "attention.pte"
    path.write_bytes(file.getvalue())
    with app_kernels(_KERNELS):
        assert verify_program(path, exported(), builtin_backends()).passed
