# SPDX-License-Identifier: Apache-2.0
"""The convolutions of a Conformer, quantized by `quantized_program`, in one delegate of the stock runtime."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec import Model
from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from tests.oracle.oracle import OracleProgram


class Convolutions(nn.Module):
    """A stem that halves the rate, and the convolutions of a block, between rows of features."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.norm = nn.Conv1d(40, 64, 3, 2, 1), nn.LayerNorm(64)
        self.first, self.deep = nn.Conv1d(64, 128, 1), nn.Conv1d(64, 64, 31, padding=15, groups=64)
        self.batch, self.last = nn.BatchNorm1d(64), nn.Conv1d(64, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.stem(x.transpose(1, 2)).transpose(1, 2)
        y = f.glu(self.first(self.norm(rows).transpose(1, 2)), 1)
        result: Tensor = rows + self.last(f.silu(self.batch(self.deep(y)))).transpose(1, 2)
        return result


_X: Final = torch.randn(1, 100, 40, generator=torch.Generator().manual_seed(1))
# Settings -> operations of the delegate, of which two layers are means, and the ratio of signal and error
# that was found in the runtime, in dB.
CONFIGS: Final[dict[str, tuple[dict[str, Any], dict[str, int], float]]] = {
    "dynamic": (
        {"activation": "dynamic_int8"},
        {"Convert": 3, "Convolution": 1, "FullyConnected": 4, "Transpose": 0},
        40,
    ),
    "weights": (
        {"activation": "float"},
        {"Convert": 0, "Convolution": 1, "FullyConnected": 4, "Transpose": 0},
        66,
    ),
    "static": ({"activation": "int8"}, {"Convolution": 3, "FullyConnected": 2, "Transpose": 0}, 36.6),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_block_is_one_delegate_without_transposes(name: str) -> None:
    settings, wanted, noise = CONFIGS[name]
    module = Convolutions().eval()
    samples = {"forward": [((_X,), {})]}
    methods = quantize_model(export(Model(module, (_X,))), samples, Settings(**settings)).methods
    lowered = lower(methods, "xnnpack")
    report = lowered.reports["forward"]
    (delegate,) = report.delegates
    assert not report.rejections
    found = Counter(operations(delegate.module.blob_bytes()))
    assert {operation: found[operation] for operation in wanted} == wanted
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    (result,) = OracleProgram(file.getvalue()).run((_X,))
    with torch.no_grad():
        assert signal_to_noise(module(_X), result) == pytest.approx(noise, abs=2)
