# SPDX-License-Identifier: Apache-2.0
"""Models that `quantized_program` quantizes, as one delegate in the stock runtime."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise
from tests.oracle.oracle import OracleProgram


class Images(nn.Module):
    """Layers of MobileNetV3: depthwise convolutions, squeeze and excitation, a sum, activations."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 8, 1), nn.ReLU())
        self.excite = nn.Sequential(nn.Conv2d(8, 16, 1), nn.Hardsigmoid())
        self.project = nn.Conv2d(16, 16, 1)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.deep(x)
        y = y * self.excite(self.squeeze(y))
        result: Tensor = self.head((x + self.project(y)).mean((2, 3)))
        return result


class Transformer(nn.Module):
    """A layer of a transformer, with norms before attention and feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(32), nn.LayerNorm(32)])
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.wide, self.narrow, self.head = nn.Linear(32, 128), nn.Linear(128, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        heads = [
            layer(y).unflatten(-1, (4, 8)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        ]
        x = x + self.out(f.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        x = x + self.narrow(f.gelu(self.wide(self.norms[1](x))))
        result: Tensor = self.head(x.mean(1))
        return result


MODELS: Final[dict[str, tuple[type[nn.Module], tuple[int, ...]]]] = {
    "images": (Images, (1, 3, 32, 32)),
    "transformer": (Transformer, (1, 16, 32)),
}
# Settings, and the least ratio in dB of the results in eager mode and of the runtime's differences to them,
# a tenth (20 dB) of what was measured. int8 results were equal.
SETTINGS: Final[list[tuple[dict[str, Any], float]]] = [
    ({}, 40.0),
    ({"precision": "fp16"}, 25.0),
    ({"ranges": "symmetric"}, 40.0),
    ({"activation": "int16"}, 65.0),
    ({"inner": "int16"}, 18.0),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("settings", "least"), SETTINGS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_a_quantized_model_is_one_delegate(name: str, settings: dict[str, Any], least: float) -> None:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    module = make().eval()
    first, *others = (torch.randn(shape) for _ in range(4))
    # Several: of one, a value halfway between two integers may decide.
    samples = [torch.randn(shape) for _ in range(8)]
    chosen = Settings(**{key: value for key, value in settings.items() if key != "precision"})
    model = quantized(module, (first,), chosen, [((each,), {}) for each in others])
    wanted = torch.cat([model.methods["forward"].module()(x) for x in samples])
    precision = settings.get("precision", "fp32")
    lowered = lower(model.methods, "xnnpack", {"precision": precision})
    report = lowered.reports["forward"]
    (delegate,) = report.delegates
    assert not report.rejections
    found = Counter(operations(delegate.module.blob_bytes()))
    if settings.get("activation") == "int16":
        assert not found["Convert"]
    elif precision == "fp16" and name == "images":
        # no more than in float32: input and output, and around each hard sigmoid
        assert found["Convert"] == 4
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = OracleProgram(file.getvalue())
    result = torch.cat([program.run((x,))[0].clone() for x in samples])
    assert wanted.std() > 0.01
    assert signal_to_noise(wanted, result) > least
    in_float = torch.cat([module(x) for x in samples])
    assert signal_to_noise(in_float, result) > signal_to_noise(in_float, wanted) - 1
