# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers that `quantized_program` quantizes, in the stock runtime: a loop, or one delegate."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn

from delegatec import Model
from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.delegation import call_delegate
from delegatec.edge.control_flow import calls
from delegatec.frontend.export import export
from delegatec.lowering import Program, lower
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from tests.oracle.oracle import OracleProgram

_STEPS: Final = 12


class Recurrent(nn.Module):
    """Two kinds of recurrent layers, and a head; weights of hidden states have 128 KiB in int8."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.LSTM(24, 176, batch_first=True)
        self.second = nn.GRU(176, 208, batch_first=True, bidirectional=True)
        self.head = nn.Linear(416, 16)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.second(self.first(x)[0])[0])
        return result


# Settings, the ratio of signal and error that was found in the runtime, in dB, and the share of the weights
# in bytes.
CONFIGS: Final[dict[str, tuple[dict[str, Any], float, float]]] = {
    "static": ({"activation": "int8"}, 37, 0.3),
    "8da8w": ({"activation": "dynamic_int8"}, 44, 0.28),
    "int8": ({"activation": "float"}, 50, 0.28),
    "float16": ({"activation": "float", "weight": "float16"}, 75, 0.52),
}


def _lowered(name: str, backend: str = "xnnpack", **options: str) -> tuple[Program, bytes, float]:
    """Returns the program, its file, and the ratio of signal and error in the runtime in dB."""
    generator = torch.Generator().manual_seed(1)
    x, *others = (torch.randn(1, _STEPS, 24, generator=generator) for _ in range(5))
    module, settings = Recurrent().eval(), Settings(**CONFIGS[name][0])
    samples = {"forward": [((each,), {}) for each in others]} if settings.is_static else {}
    methods = quantize_model(export(Model(module, (x,))), samples, settings).methods
    lowered = lower(methods, backend, options)
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    (found,) = OracleProgram(file.getvalue()).run((x,))
    with torch.no_grad():
        return lowered, file.getvalue(), signal_to_noise(module(x), found)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_loop_has_one_copy_of_each_weight(name: str) -> None:
    lowered, file, noise = _lowered(name)
    _, wanted, share = CONFIGS[name]
    size = sum(each.numel() * 4 for each in Recurrent().parameters())
    assert len(file) < share * size
    assert noise == pytest.approx(wanted, abs=3)
    program = lowered.programs["forward"]
    assert len(calls(program)) == 3
    for body in program.bodies.values():
        (delegate,) = [
            node for node in body.graph.nodes if node.op == "call_function" if node.target is call_delegate
        ]
        assert {node.target for node in body.graph.nodes if node.op == "call_function"} == {
            call_delegate,
            *{each.target for each in delegate.users if each.op == "call_function"},
        }
    found = [Counter(operations(each.module.blob_bytes())) for each in lowered.reports["forward"].delegates]
    bodies = [each for each in found if each["Sigmoid"]]
    assert [each["FullyConnected"] for each in bodies] == [1, 1, 1], found
    assert all((each["Convert"] > 0) == (name == "8da8w") for each in bodies), found


@pytest.mark.parametrize("name", ["static", "8da8w"])
def test_one_delegate(name: str) -> None:
    lowered, _, noise = _lowered(name, recurrent="unrolled")
    report = lowered.reports["forward"]
    assert (len(report.delegates), report.rejections) == (1, [])
    assert noise == pytest.approx(CONFIGS[name][1], abs=3)


@pytest.mark.parametrize("name", ["static", "8da8w"])
def test_portable_kernels_dequantize_a_weight_once(name: str) -> None:
    lowered, _, noise = _lowered(name, "portable")
    assert noise == pytest.approx(CONFIGS[name][1], abs=3)
    for body in lowered.programs["forward"].bodies.values():
        largest = max(
            each.meta["val"].numel()
            for each in body.graph.nodes
            if each.op == "call_function" and isinstance(each.meta["val"], Tensor)
        )
        assert largest <= 4 * 208


class Streamed(nn.Module):
    """An LSTM of a stream, whose state is kept from call to call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.LSTM(24, 64, 2, batch_first=True)
        self.register_buffer("h", torch.zeros(2, 1, 64))
        self.register_buffer("c", torch.zeros(2, 1, 64))

    def forward(self, x: Tensor) -> Tensor:
        h, c = self.h, self.c
        assert isinstance(h, Tensor) and isinstance(c, Tensor)
        y, state = self.layer(x, (h, c))
        h.copy_(state[0])
        c.copy_(state[1])
        return y * 2


@pytest.mark.parametrize(("activation", "wanted"), [("int8", 28), ("dynamic_int8", 38)])
def test_state_is_kept(activation: str, wanted: float) -> None:
    calls = [torch.randn(1, 40, 24, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    settings = Settings(activation=activation)
    samples = {"forward": [((each,), {}) for each in calls]} if settings.is_static else {}
    methods = quantize_model(export(Model(Streamed().eval(), (calls[0],))), samples, settings).methods
    file = io.BytesIO()
    write_program(lower(methods, "xnnpack").emitted, file)
    program, module = OracleProgram(file.getvalue()), Streamed().eval()
    for x in calls:
        with torch.no_grad():
            assert signal_to_noise(module(x), program.run((x,))[0]) > wanted
