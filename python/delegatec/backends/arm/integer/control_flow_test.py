# SPDX-License-Identifier: Apache-2.0
"""Control flow of integer graphs."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from delegatec.backends.arm.backend import TOSA
from delegatec.backends.arm.testing import graph_of
from delegatec.backends.common.testing import Call, compile_module, eager, floats
from delegatec.edge.quantization.operators import quantized

_U85: Final = {"accelerator": "ethos-u85-256"}
X: Final = (floats(2, 4) * 100).to(torch.int8)


def _quantized(x: Tensor) -> Any:
    def quantized_values(x: Tensor, scale: float) -> Tensor:
        found: Tensor = quantized.quantize_per_tensor(x, scale, 0, -128, 127, torch.int8)
        return found

    def rounded(x: Tensor, scale: float) -> Tensor:
        found: Tensor = quantized.dequantize_per_tensor(
            quantized_values(x, scale), scale, 0, -128, 127, torch.int8
        )
        return found

    run: Any = while_loop
    h = quantized.dequantize_per_tensor(x, 0.01, 0, -128, 127, torch.int8)
    picked = torch.cond(
        rounded(h.sum(), 0.1) > 0,
        lambda h: rounded(rounded(h, 0.02).sigmoid(), 0.01),
        lambda h: rounded(rounded(h, 0.03) * 0.5, 0.02),
        (h,),
    )
    last = run(
        lambda i, h: i < 3,
        lambda i, h: (i + 1, rounded(rounded(h, 0.02) + 0.1, 0.015)),
        (torch.tensor(0, dtype=torch.int32), rounded(picked, 0.015)),
    )
    return quantized_values(last[1], 0.02)


@pytest.mark.parametrize("backend", ["tosa", "ethos_u"])
def test_integers(backend: str) -> None:
    """Without floating point, bodies exchange quantized values."""
    options = {"tosa": {"specification": "TOSA-1.0+INT+cf"}, "ethos_u": _U85 | {"stage": "tosa"}}[backend]
    module = Call(_quantized)
    compiled = compile_module(backend, module, (X,), TOSA.preserved_operators(), **options)
    assert (len(compiled.delegates), compiled.left) == (1, []), compiled.left
    types = {str(value).split("[")[0] for part in graph_of(compiled).walk() for value in part.outputs}
    assert types == {"INT8", "INT32", "BOOL"}
    for each in (X, -X):
        (found,), (wanted,) = compiled(each), eager(module, (each,))
        assert int((found.int() - wanted.int()).abs().max()) <= 1


def test_small_families_have_no_control_flow() -> None:
    options = {"accelerator": "ethos-u55-128", "stage": "tosa"}
    compiled = compile_module("ethos_u", Call(_quantized), (X,), TOSA.preserved_operators(), **options)
    assert "COND_IF is not supported by Ethos-U55" in [message for _, _, message in compiled.left]
