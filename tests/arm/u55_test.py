# SPDX-License-Identifier: Apache-2.0
"""Graphs for Ethos-U55, without bool and products of int16, in the reference model, our executor and Vela."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.ethos_u.accelerator import Accelerator
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.backends.arm.ethos_u.vela import compile_graph
from delegatec.backends.arm.reference import TosaReferenceExecutor
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.backends.common.testing import Call
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized
from tests.arm.models import eager, lower
from tests.arm.tosa_tools import check, run

SPECIFICATION: Final = "TOSA-1.0+INT+int16+u55"
"""Of the graphs; that of the validator has no mark."""


def _causal(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return f.scaled_dot_product_attention(x, y, x + y, is_causal=True)


def _masked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    mask = (torch.arange(12).remainder(5) < 4).expand(12, 12)
    return f.scaled_dot_product_attention(x, y, x + y, attn_mask=mask)


def _chosen(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Depends on comparisons of two values, and of one with scalars."""
    condition = ((x > y) & ~(y < -0.5)) | ((x >= 1) ^ (y != 0))
    return torch.where(condition, x, y * 0.5).masked_fill(x <= y - 1, 0.25)


def _choices_of_integers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    one, other = (x * 4).to(torch.int32), (y * 4).to(torch.int32)
    return torch.where((one > other) | (one == 3), one, other - 7)


def _rounded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.floor(x * 2) + torch.ceil(y) + torch.trunc(x - y) + torch.round(x + y)


MODELS: Final[Mapping[str, tuple[Callable[..., torch.Tensor], int]]] = {
    "causal attention": (_causal, 2),
    "masked attention": (_masked, 2),
    "choices": (_chosen, 2),
    "choices of integers": (_choices_of_integers, 0),
    "sign": (lambda x, y: torch.sign(x) * y, 1),
    "product": (lambda x, y: x @ y.transpose(-1, -2), 1),
    "pools": (lambda x, y: f.max_pool2d(x, 5, 4, 2) + f.max_pool2d(y, (3, 4), 4), 1),
    "reflection": (lambda x, y: f.pad(x, (3, 2, 1, 4), mode="reflect").flip(1) * y.mean(), 1),
    "rounded": (_rounded, 1),
}
"""Functions of two images of rows, and the allowed difference from eager mode in quantization steps.

In int8; in int16, whose quantization steps are finer, four times as many.
"""


def _case(name: str, activation: str) -> tuple[Any, tuple[torch.Tensor, ...], int]:
    """Returns a quantized program, its inputs of integers, and the quantization steps."""
    function, tolerance = MODELS[name]
    generator = torch.Generator().manual_seed(0)
    args = tuple(torch.randn(1, 2, 12, 16, generator=generator) for _ in range(2))
    settings = Settings(activation=activation, quantize_io=True)
    program = quantized(Call(function), args, settings).methods["forward"]
    assert program.example_inputs is not None
    return program, program.example_inputs[0], tolerance


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "activation"),
    [(name, kind) for name in MODELS for kind in ("int8", "int16")],
)
def test_results_are_those_of_eager_mode(name: str, activation: str) -> None:
    program, args, tolerance = _case(name, activation)
    (wanted,) = eager(program.module(), args)
    (graph,) = lower(program, "tosa", specification=SPECIFICATION).blobs
    check(graph, TosaSpecification.parse(SPECIFICATION.removesuffix("+u55")))
    (found,) = run(graph, args)
    (ours,) = TosaReferenceExecutor(read_blob(memoryview(graph)))(args)
    assert torch.equal(found.reshape(ours.shape), ours)
    assert len(wanted.unique()) > 2
    assert (ours.long() - wanted.long()).abs().max() <= tolerance * (1 if activation == "int8" else 4)
    compile_graph([graph], EthosUSettings(accelerator=Accelerator.U55_128))
