# SPDX-License-Identifier: Apache-2.0
"""Programs of the XNNPACK backend in the stock runtime: one delegate each, with the results of eager mode."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch

from delegatec.delegation import DelegationReport
from delegatec.lowering import lower
from delegatec.program import weights_of, write_flat_tensors, write_program
from tests.oracle.oracle import OracleProgram
from tests.oracle.xnnpack import run_in_runtime


def one_delegate(report: DelegationReport) -> None:
    assert (len(report.delegates), report.rejections) == (1, [])


def perceptron() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4), torch.nn.Sigmoid()
    return torch.nn.Sequential(*layers)


def test_a_perceptron() -> None:
    x = torch.randn(3, 8)
    one_delegate(run_in_runtime(perceptron(), [(x,)]))
    one_delegate(run_in_runtime(perceptron(), [(x,)], None, {"precision": "fp16"}, rtol=4e-3, atol=1e-3))


def test_the_batch_may_vary() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    calls = [(torch.randn(rows, 8),) for rows in (5, 2, 64, 3)]
    one_delegate(run_in_runtime(perceptron(), calls, ({0: batch},)))


class Outputs(torch.nn.Module):
    """Returns a result twice, and reads it further."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        total = x + y
        return total, total * 2.0, total, (total - y).relu()


def test_outputs_that_are_read_or_returned_twice() -> None:
    one_delegate(run_in_runtime(Outputs(), [(torch.randn(2, 3), torch.randn(2, 3))]))


class Constants(torch.nn.Module):
    """Adds, multiplies and compares with constants, which the runtime reads at each run."""

    weight: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(3, 50))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x * self.weight + 1.5, self.weight)


def test_constants_that_are_not_packed() -> None:
    one_delegate(run_in_runtime(Constants(), [(torch.randn(3, 50),) for _ in range(3)]))


class Decoder(torch.nn.Module):
    """Two layers of attention to caches of keys and values, with heads that share keys."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        for layer in range(2):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}_{layer}", torch.zeros(1, 2, 8, 16))
        self.projections = torch.nn.ModuleList(torch.nn.Linear(64, 128) for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(64) for _ in range(2))
        self.outputs = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(8) <= at[:, None]
        for layer in range(2):
            heads = self.projections[layer](self.norms[layer](x)).view(1, -1, 8, 16).transpose(1, 2)
            query, key, value = heads.split([4, 2, 2], 1)
            keys, values = getattr(self, f"keys_{layer}"), getattr(self, f"values_{layer}")
            keys[:, :, at], values[:, :, at] = key, value
            attended = torch.nn.functional.scaled_dot_product_attention(
                query, keys, values, mask, enable_gqa=True
            )
            x = x + self.outputs[layer](attended.transpose(1, 2).flatten(2))
        return x


@pytest.mark.parametrize("rows", [1, 3])
def test_a_decoder_with_caches_is_one_delegate(rows: int) -> None:
    calls = [(torch.randn(1, rows, 64), torch.arange(start, start + rows)) for start in range(0, 6, rows)]
    report = run_in_runtime(Decoder(), calls, rtol=1e-4, atol=1e-5)
    assert len(report.delegates) == 1
    left = {each.operator for each in report.rejections}
    assert not any(name in left for name in ("aten.bmm.default", "aten._softmax.default"))
    assert len([each for each in report.rejections if each.operator == "aten.index_put.default"]) == 4


class Tied(torch.nn.Module):
    """Looks up rows on a portable kernel, and multiplies by the same matrix in the delegate."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(50, 64)
        self.inner = torch.nn.Linear(64, 64)
        self.scale = torch.nn.Parameter(torch.randn(64))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = (self.inner(self.embedding(ids)) * self.scale).relu()
        return torch.nn.functional.linear(hidden, self.embedding.weight)


def test_methods_and_kernels_share_weights() -> None:
    module = Tied().eval()
    calls = {"prefill": torch.arange(8)[None], "step": torch.tensor([[3]])}
    exported = {name: torch.export.export(module, (ids,)) for name, ids in calls.items()}
    weights = weights_of(exported)
    size = sum(each.nbytes for each in weights.values())
    data = io.BytesIO()
    write_flat_tensors(weights, data)
    for external in (False, True):
        exported = {name: torch.export.export(module, (ids,)) for name, ids in calls.items()}
        emitted = lower(exported, "xnnpack", external_weights=external).emitted
        file = io.BytesIO()
        write_program(emitted, file)
        # also the matrix of the embedding and of the layer that is tied to it
        copies = 0 if external else size
        assert copies <= len(file.getvalue()) < copies + 7000
        program = OracleProgram(file.getvalue(), data.getvalue() if external else None)
        for name, ids in calls.items():
            with torch.no_grad():
                torch.testing.assert_close(program.run([ids], name)[0], module(ids), rtol=1e-5, atol=1e-5)
