# SPDX-License-Identifier: Apache-2.0
"""Convolutions of lines without samples: linear layers, convolutions of images, or in float."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise

DYNAMIC: Final[dict[str, Any]] = {"activation": "dynamic_int8"}


class Lines(nn.Module):
    """Strided, grouped, pointwise, depthwise and transposed convolutions; a batch norm follows the first."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.norm = nn.Conv1d(24, 32, 5, 2, 2), nn.BatchNorm1d(32)
        self.same = nn.Conv1d(32, 32, 3, padding="same", dilation=2, groups=4)
        self.point, self.other = nn.Conv1d(32, 48, 1), nn.Conv1d(32, 48, 1, bias=False)
        self.deep = nn.Conv1d(48, 48, 7, padding=3, groups=48)
        self.back = nn.ConvTranspose1d(48, 16, 4, 2, 1, 1)
        nn.init.normal_(self.norm.running_mean)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        x = self.same(torch.relu(self.norm(self.wide(x))))
        result: Tensor = self.back(torch.tanh(self.deep(self.point(x) * self.other(x))))
        return result


def _noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _quantized(module: nn.Module, x: Tensor, shapes: Any = None, **settings: Any) -> ExportedProgram:
    methods = export(Model(module.eval(), (x,), dynamic_shapes=shapes))
    return quantize_model(methods, {}, Settings(**settings)).methods["forward"]


def _integers(program: ExportedProgram) -> set[str]:
    return {name.partition(".")[0] for name, value in program.state_dict.items() if value.dtype is torch.int8}


def _calls(program: ExportedProgram) -> Counter[str]:
    return Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")


def _error(module: nn.Module, program: ExportedProgram, x: Tensor) -> float:
    with torch.no_grad():
        return signal_to_noise(module(x), program.module(check_guards=False)(x))


@pytest.mark.parametrize(
    ("settings", "integers", "least"),
    [
        (DYNAMIC, {"wide", "same", "point", "other", "back"}, 36),
        ({**DYNAMIC, "weight_scales": "tensor"}, {"wide", "same", "point", "other", "back"}, 33),
        ({"activation": "float"}, {"point", "other"}, 45),
    ],
)
def test_forms(settings: dict[str, Any], integers: set[str], least: float) -> None:
    module, x = Lines(), _noise(2, 24, 40)
    program = _quantized(module, x, **settings)
    assert _integers(program) == integers
    calls = _calls(program)
    assert calls["aten.linear.default"] == 2
    is_dynamic = settings["activation"] == "dynamic_int8"
    assert calls["aten.conv1d.default"] == (1 if is_dynamic else 2)
    assert calls["aten.conv2d.default"] == calls["aten.conv2d.padding"] == is_dynamic
    assert calls["aten.conv_transpose2d.input"] == is_dynamic
    # both pointwise convolutions read the same rows
    assert calls["delegatec.choose_qparams_affine.default"] == is_dynamic
    assert least < _error(module, program, x) < 65


def test_sizes_may_vary() -> None:
    program = _quantized(Lines(), _noise(2, 24, 40), {"x": {2: 2 * Dim("half", min=4, max=40)}}, **DYNAMIC)
    for length in (8, 80):
        assert _error(Lines().eval(), program, _noise(2, 24, length)) > 33


def test_a_line_without_a_batch_stays_in_float() -> None:
    x = _noise(24, 40)
    module = nn.Sequential(nn.Conv1d(24, 16, 3), nn.Conv1d(16, 16, 1), nn.Flatten(0), nn.Linear(16 * 38, 4))
    assert _integers(_quantized(module, x, **DYNAMIC)) == {"3"}


def test_pointwise_weights_have_groups() -> None:
    module, x = nn.Conv1d(64, 32, 1), _noise(1, 64, 10)
    program = _quantized(module, x, **DYNAMIC, weight="int4", group_size=32)
    (levels,) = (value for value in program.state_dict.values() if value.dtype is torch.int8)
    assert levels.shape == (32, 64) and -8 <= levels.min() < levels.max() <= 7
    assert _error(module, program, x) > 15


@pytest.mark.parametrize("dims", [1, 2])
def test_depthwise_convolutions_stay_in_float(dims: int) -> None:
    kind: Any = (nn.Conv1d, nn.Conv2d)[dims - 1]
    module = nn.Sequential(kind(8, 16, 3, groups=8), kind(16, 16, 1 + dims % 2 * 2))
    program = _quantized(module, _noise(1, 8, *[12] * dims), **DYNAMIC)
    assert _integers(program) == {"1"} and "0.weight" in program.state_dict
