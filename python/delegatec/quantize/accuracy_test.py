# SPDX-License-Identifier: Apache-2.0
"""The error of a quantized model: against the results of the module, in a row, and as a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.accuracy import accuracies, calls_of, limit_problems, recorded_problems
from delegatec.quantize.boundary import quantize
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from delegatec.samples.accuracy import OutputAccuracy
from delegatec.samples.recorded import RecordedCall, RecordedSamples

_ROWS = torch.randn(6, 4, 8, generator=torch.Generator().manual_seed(1))
_SAMPLES: list[Sample] = [((row,), {}) for row in _ROWS]


class Mean(nn.Module):
    """A layer, and the mean of its results in all calls; the index of the largest is an integer."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.layer(x)
        self.mean.mul_(0.5).add_(y.mean(0))
        return {"y": y, "mean": self.mean.clone(), "best": y.argmax(-1)}


def _recorded() -> RecordedSamples:
    """Calls in a row of the module itself."""
    module, calls = Mean(), []
    for number, row in enumerate(_ROWS):
        with torch.no_grad():
            result = pytree.tree_flatten_with_path(module(row))[0]
        outputs = tuple((pytree.keystr(path), leaf) for path, leaf in result)
        calls.append(RecordedCall("forward", f"seed {number}", (row,), outputs))
    return RecordedSamples(tuple(calls))


@pytest.mark.parametrize("settings", [{}, {"quantize_io": True}, {"activation": "float"}])
def test_the_error_against_the_module(settings: dict[str, Any]) -> None:
    methods = export(Model(Mean(), (_ROWS[0],)), samples=0)
    model = quantize_model(methods, {"forward": _SAMPLES}, Settings(**settings))
    recorded = _recorded()
    found = {each.output: each for each in accuracies(model, recorded, "module")}
    assert found.keys() == {"['y']", "['mean']"}
    run = model.methods["forward"].module(check_guards=False)
    quantization = model.inputs.get("forward", {}).get("x")
    results: dict[str, list[Tensor]] = {"['y']": [], "['mean']": []}
    for row in _ROWS:
        with torch.no_grad():
            result = run(quantize(row, quantization) if quantization else row)
        for position, name in enumerate(results):
            value = result[name[2:-2]]
            scale = model.outputs.get("forward", {}).get(position)
            results[name].append(scale.dequantize(value) if scale else value)
    for position, (name, values) in enumerate(results.items()):
        exact = torch.stack([call.outputs[position][1] for call in recorded.calls])
        each, stacked = found[name], torch.stack(values)
        assert each.snr_db == pytest.approx(signal_to_noise(exact, stacked), abs=0.02)
        assert each.max_error == pytest.approx(float((exact - stacked).abs().max()), rel=1e-3)
        assert 15 < each.snr_db < 60 and (each.calls, each.samples) == (6, "module")


def test_the_model_in_float_runs_if_nothing_is_recorded() -> None:
    methods = export(Model(Mean(), (_ROWS[0],)), samples=0)
    model = quantize_model(methods, {"forward": _SAMPLES}, Settings())
    calls = calls_of(methods, {"forward": _SAMPLES})
    assert [call.name for call in calls.calls] == ["calibration"] * 4
    for call, recorded in zip(calls.calls, _recorded().calls, strict=False):
        for (path, value), (name, wanted) in zip(call.outputs, recorded.outputs, strict=True):
            assert path == name
            torch.testing.assert_close(value, wanted)
    assert {each.samples for each in accuracies(model, calls)} == {"calibration"}
    (example,) = calls_of(methods, {}).calls
    assert example.name == "example" and torch.equal(example.inputs[0], _ROWS[0])


def test_a_limit() -> None:
    found = [
        OutputAccuracy("forward", "['y']", 24.96, 0.1, 2, "module"),
        OutputAccuracy("forward", "", 25.0, 0.1, 2, "example"),
    ]
    (problem,) = limit_problems(found, 25)
    assert problem.code == "DC137" and "the output ['y'] of method forward" in problem.message
    assert "25.0 dB" not in problem.message and "minimum_snr_db = 25" in problem.expected
    assert not list(limit_problems(found, 24))


def test_recorded_calls_of_another_model() -> None:
    methods = export(Model(nn.Linear(8, 4), (_ROWS[0],)), samples=0)
    calls = (RecordedCall("forward", "", (), ()), RecordedCall("other", "", (), ()))
    first, second = recorded_problems(RecordedSamples(calls), methods, "a.safetensors")
    assert first.code == second.code == "DC132"
    assert "calls of forward have 0 inputs, not 1" in first.message
    assert "no method other" in second.message
    assert not list(recorded_problems(_recorded(), methods, "a.safetensors"))


def test_the_archive_has_the_error(tmp_path: Path) -> None:
    path = str(tmp_path / "a.pt2")
    methods = export(Model(nn.Linear(8, 4), (_ROWS[0],)), samples=0)
    found = (OutputAccuracy("forward", "['y']", 24.96, 0.1, 2, "module"),)
    archive.save(methods, path, accuracy=found)
    assert archive.load(path).accuracy == found
    assert torch.export.load(path) is not None
    archive.save(methods, path)
    assert archive.load(path).accuracy == ()


@pytest.mark.parametrize(
    ("field", "value"), [("snr_db", "NaN"), ("calls", -1), ("output", 3), ("snr_db", None), ("method", [])]
)
def test_a_damaged_error_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    path = str(tmp_path / "a.pt2")
    methods = export(Model(nn.Linear(8, 4), (_ROWS[0],)), samples=0)
    row = OutputAccuracy("forward", "", 24.96, 0.1, 2, "module")
    object.__setattr__(row, field, value)
    archive.save(methods, path, accuracy=[row])
    with pytest.raises(DelegatecError, match=r"DC120.*accuracy\.json"):
        archive.load(path)
