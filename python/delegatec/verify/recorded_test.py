# SPDX-License-Identifier: Apache-2.0
"""Programs compared with the results of the model's module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.samples.recorded import RecordedCall, RecordedSamples
from delegatec.verify.outputs import EXPORTED, MODULE
from delegatec.verify.verification import Verification, verify_program


class Counter(torch.nn.Module):
    """State that two methods share; one writes to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> Mapping[str, torch.Tensor]:
        self.get_buffer("total").add_(x)
        return {"sum": self.get_buffer("total") * 2, "count": torch.tensor([x.shape[0]])}

    def take(self, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(self.get_buffer("total"))
        return cache * 3


X = torch.tensor([1.0, 2.0, 4.0])


def _exported() -> dict[str, Any]:
    return export(Model(Counter().eval(), (X,), methods={"take": Method("take", (X,))}))


def _recorded() -> RecordedSamples:
    """Calls of the module in a row, of both methods in turn."""
    module, calls = Counter(), []
    for index, method in enumerate(("forward", "take", "forward", "forward", "take")):
        given = X * (index + 1)
        passed = given.clone()
        result = getattr(module, method)(passed)
        pairs = (
            {f"[{key!r}]": value for key, value in result.items()} if method == "forward" else {"": result}
        )
        outputs = tuple((path, value.clone()) for path, value in pairs.items())
        written = {0: passed} if method == "take" else {}
        calls.append(RecordedCall(method, f"seed {index}", (given,), outputs, written))
    return RecordedSamples(tuple(calls))


def _verify(folder: Path, recorded: RecordedSamples, **options: Any) -> Verification:
    with open(folder / "p.pte", "wb") as file:
        write_program(lower(_exported()).emitted, file)
    return verify_program(folder / "p.pte", _exported(), builtin_backends(), recorded=recorded, **options)


def _changed(samples: RecordedSamples, index: int, **fields: Any) -> RecordedSamples:
    calls = [*samples.calls]
    calls[index] = replace(calls[index], **fields)
    return RecordedSamples(tuple(calls))


def test_calls_in_a_row_from_the_initial_state(tmp_path: Path) -> None:
    found = _verify(tmp_path, _recorded())
    assert found.passed, found.table()
    calls = [each.call for each in found.results if each.call.oracle == MODULE and each.output == 0]
    assert [(call.method, call.trial) for call in calls] == [
        (call.method, call.name) for call in _recorded().calls
    ]
    lines = found.table().splitlines()
    assert "compared with" in lines[0] and "runs in" not in lines[0]
    assert sum(f"  {MODULE}  " in line for line in lines) == sum(EXPORTED in line for line in lines) == 4


def test_another_value(tmp_path: Path) -> None:
    samples = _recorded()
    wrong = tuple((path, value + 1) for path, value in samples.calls[3].outputs)
    found = _verify(tmp_path, _changed(samples, 3, outputs=wrong))
    messages = [each.message for each in found.diagnostics]
    assert len(messages) == 2 and all("method 'forward', seed 3, output" in each for each in messages)
    assert messages[1].endswith("element [0] is 3, the module itself returned 4")
    assert {each.call.oracle for each in found.results if not each.passed} == {MODULE}
    assert "from one export" in found.diagnostics[0].help


def test_what_differs_from_the_exported_program_is_reported_once(tmp_path: Path) -> None:
    with open(tmp_path / "p.pte", "wb") as file:
        write_program(lower(_exported()).emitted, file)
    other, samples = _exported(), _recorded()
    for each in other.values():
        each.state_dict["total"].add_(1)
    found = verify_program(tmp_path / "p.pte", other, builtin_backends(), recorded=samples, seeds=0)
    assert {each.call.oracle for each in found.results if not each.passed} == {EXPORTED}
    wrong = _changed(samples, 0, outputs=tuple((path, value + 1) for path, value in samples.calls[0].outputs))
    both = verify_program(tmp_path / "p.pte", other, builtin_backends(), recorded=wrong, seeds=0)
    assert {each.call.oracle for each in both.results if not each.passed} == {EXPORTED, MODULE}
    (problem,) = (each for each in both.diagnostics if each not in found.diagnostics)
    assert "output 1 ['count']" in problem.message  # the sum is wrong in both


def test_another_write_to_an_input(tmp_path: Path) -> None:
    samples = _recorded()
    found = _verify(tmp_path, _changed(samples, 1, written={}))
    assert [each.code for each in found.diagnostics] == ["DC502"]
    assert "method 'take', seed 1, output 1 (input 0)" in found.diagnostics[0].message


def test_another_dtype(tmp_path: Path) -> None:
    samples = _recorded()
    wide = (("", samples.calls[4].outputs[0][1].double()),)
    found = _verify(tmp_path, _changed(samples, 4, outputs=wide))
    assert [each.code for each in found.diagnostics] == ["DC503"]


def test_another_interface(tmp_path: Path) -> None:
    samples = _recorded()
    with pytest.raises(DelegatecError, match=r"DC507.*lacks method 'gone' of the model's samples"):
        _verify(tmp_path, _changed(samples, 0, method="gone"))
    with pytest.raises(DelegatecError, match=r"DC507.*inputs of method 'forward': the program has 1"):
        _verify(tmp_path, _changed(samples, 0, inputs=(X, X)))


@pytest.mark.parametrize(("least", "passes"), [(-math.inf, True), (30.0, True), (50.0, False)])
def test_the_signal_to_noise_ratio_instead_of_tolerances(tmp_path: Path, least: float, passes: bool) -> None:
    samples = _recorded()
    near = (("", samples.calls[4].outputs[0][1] * 1.01),)  # 40 dB
    found = _verify(tmp_path, _changed(samples, 4, outputs=near), minimum_snr=least)
    assert found.passed == passes
    if not passes:
        assert "the signal-to-noise ratio is 40.0" in found.diagnostics[0].message
        assert found.diagnostics[0].expected == "a signal-to-noise ratio of at least 50 dB"
    limited = [each.verdict for each in found.results if each.call.oracle == MODULE and each.passed]
    assert set(limited) == {"quantized, without a limit" if least == -math.inf else "ok"}
    assert {each.verdict for each in found.results if each.call.oracle == EXPORTED} == {"ok"}


def test_no_samples(tmp_path: Path) -> None:
    found = _verify(tmp_path, RecordedSamples())
    assert {each.call.oracle for each in found.results} == {EXPORTED}
    assert "compared with" not in found.table()
