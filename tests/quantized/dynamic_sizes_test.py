# SPDX-License-Identifier: Apache-2.0
"""Quantized networks with dynamic sizes: one delegate, and the values of the float module at all sizes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec import Model
from delegatec.backends import builtin_backends
from delegatec.edge.testing.narrowed import narrowed_sizes
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from delegatec.verify import Interpreter
from tests.oracle.oracle import OracleProgram

_WIDTH: Final = 32
_HEADS: Final = 4
_BATCH: Final = Dim("batch", min=1, max=5)


class Attention(nn.Module):
    """A transformer's layer. Attention is one operator, or products of [batch * heads, length, ...]."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self.whole = whole
        self.norms = nn.ModuleList(nn.LayerNorm(_WIDTH) for _ in range(2))
        self.heads, self.out = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)
        self.up, self.down = nn.Linear(_WIDTH, 64), nn.Linear(64, _WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.heads(self.norms[0](x)).view(batch, length, 3, _HEADS, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        if self.whole:
            mixed = f.scaled_dot_product_attention(query, key, value)
        else:
            mixed = torch.softmax(query @ key.transpose(-2, -1) * (_WIDTH // _HEADS) ** -0.5, -1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, _WIDTH))
        result: Tensor = x + self.down(f.gelu(self.up(self.norms[1](x))))
        return result


class Flattened(nn.Module):
    """Layers of rows [batch * length, channels] with weights [in, out], as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(_WIDTH, 64) / 8), nn.Parameter(torch.randn(64) / 8)
        self.norm, self.down = nn.LayerNorm(_WIDTH), nn.Linear(64, _WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.addmm(self.bias, self.norm(x).view(-1, _WIDTH), self.weight)
        result: Tensor = x + self.down(torch.tanh(rows.view(*x.shape[:-1], 64)))
        return result


class Sound(nn.Module):
    """A speech model's convolutions: the rows after the second one follow from the samples alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 16, 10, stride=5), nn.Conv1d(16, _WIDTH, 3, stride=2)
        self.scale, self.norm = nn.GroupNorm(16, 16), nn.LayerNorm(_WIDTH)
        self.out = nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows = f.gelu(self.second(f.gelu(self.scale(self.first(x[:, None])))))
        result: Tensor = self.out(self.norm(rows.transpose(1, 2)))
        return result


def _rows(batch: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(31 * batch + length)
    return torch.randn(batch, length, _WIDTH, generator=generator)


def _samples(batch: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(31 * batch + length)
    return torch.randn(batch, 40 + 20 * length, generator=generator)


_Inputs = Callable[[int, int], Tensor]
NETWORKS: Final[dict[str, tuple[Callable[[], nn.Module], _Inputs, Any]]] = {
    "attention": (lambda: Attention(whole=True), _rows, Dim("length", min=2, max=40)),
    "products": (lambda: Attention(whole=False), _rows, Dim("length", min=2, max=40)),
    "flattened": (Flattened, _rows, Dim("length", min=2, max=40)),
    "sound": (Sound, _samples, Dim("samples", min=80, max=840)),
}
# Settings, and the least ratio of signal and error in dB.
SETTINGS: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "int8": ({"activation": "int8"}, 22),
    "dynamic int8": ({"activation": "dynamic_int8"}, 32),
    "int4 weights": ({"activation": "float", "weight": "int4", "group_size": 16}, 18),
}
# The most delegates. Group norms of dynamic rows stay outside, and so do Vulkan's convolutions of a dynamic
# batch.
_ONE: Final = {"xnnpack": 1, "vulkan": 1, "mlx": 1}
_DELEGATES: Final = {**dict.fromkeys(NETWORKS, _ONE), "sound": {"xnnpack": 2, "vulkan": 4, "mlx": 2}}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("backend", _ONE)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_at_all_sizes(name: str, setting: str, backend: str) -> None:
    make, inputs, length = NETWORKS[name]
    settings, least = SETTINGS[setting]
    torch.manual_seed(0)
    module = make().eval()
    sizes = ((1, 2), (5, 40), (3, 11))
    methods = export(Model(module, (inputs(3, 7),), dynamic_shapes=({0: _BATCH, 1: length},)))
    calibration = {"forward": [((inputs(*each),), {}) for each in (*sizes, (2, 3))]}
    is_observed = settings["activation"] == "int8"
    quantized = quantize_model(methods, calibration if is_observed else {}, Settings(**settings)).methods
    lowered = lower(quantized, backend)
    assert len(lowered.reports["forward"].delegates) <= _DELEGATES[name][backend]
    assert not narrowed_sizes(lowered.programs["forward"])
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    reference = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes())
    runtimes = [reference.run, *([OracleProgram(file.getvalue()).run] if backend == "xnnpack" else [])]
    for batch, rows in sizes:
        x = inputs(batch, rows)
        with torch.no_grad():
            expected = module(x)
        for run in runtimes:
            (found,) = run([x])
            assert signal_to_noise(expected, found) > least, (batch, rows)
