# SPDX-License-Identifier: Apache-2.0
"""Casts next to quantized values disappear."""

from __future__ import annotations

import torch
from torch import Tensor

from delegatec.backends.xnnpack.quantized.casts import fold_casts
from delegatec.backends.xnnpack.quantized.testing import q, qdq
from delegatec.edge.arguments import dtype_of
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
PRESERVED = [QUANTIZE, DEQUANTIZE]
X = torch.randn(2, 8)


def test_casts_of_dequantized_values_and_before_quantization() -> None:
    def function(x: Tensor) -> Tensor:
        return qdq(qdq(x).to(torch.float16).neg().to(torch.float32))

    program = edge(function, X, preserve=PRESERVED, passes=())
    assert fold_casts(program)
    verify(program)
    assert called(program) == [QUANTIZE, DEQUANTIZE, aten.neg.default, QUANTIZE, DEQUANTIZE]
    first, second = program.graph.find_nodes(op="call_function", target=DEQUANTIZE)
    assert (dtype_of(first), dtype_of(second)) == (torch.float16, torch.float32)


def test_other_casts_stay() -> None:
    program = edge(lambda x: q(x).to(torch.float32).to(torch.float16).neg(), X, preserve=PRESERVED, passes=())
    before = called(program)
    assert not fold_casts(program)
    assert called(program) == before
