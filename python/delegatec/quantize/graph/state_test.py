# SPDX-License-Identifier: Apache-2.0
"""State stays state in quantized programs: buffers with equal values, state that methods share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional as F  # noqa: N812

from delegatec.edge.state import written_state
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model
from delegatec.quantize.boundary import quantize
from delegatec.quantize.flow import QuantizedModel, quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise

# Settings, and the least signal to noise ratio in dB.
_SETTINGS: dict[str, tuple[dict[str, Any], float]] = {
    "int8": ({}, 20),
    "int8 boundary": ({"quantize_io": True}, 20),
    "int16": ({"activation": "int16"}, 30),
    "dynamic int8": ({"activation": "dynamic_int8"}, 30),
    "dynamic int4": ({"activation": "dynamic_int8", "weight": "int4", "group_size": 8}, 10),
    "int8 weights": ({"activation": "float"}, 30),
    "int4 weights": ({"activation": "float", "weight": "int4", "group_size": 8}, 10),
    "float16 weights": ({"activation": "float", "weight": "float16"}, 55),
}
_ROWS = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
_TOKENS: list[Sample] = [((row[None], torch.tensor([at])), {}) for at, row in enumerate(_ROWS)]


class Caches(nn.Module):
    """Keys and values of zeros, and two counters from 0: as in any decoder."""

    keys: Tensor
    values: Tensor
    ones: Tensor
    tens: Tensor
    zeros: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        for name in ("keys", "values", "zeros"):  # the last is a constant
            self.register_buffer(name, torch.zeros(6, 8))
        for name in ("ones", "tens"):
            self.register_buffer(name, torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.keys.index_copy_(0, at, self.first(x))
        self.values.index_copy_(0, at, self.second(x))
        self.ones.add_(1)
        self.tens.add_(10)
        return (
            x @ self.keys.T @ (self.values + self.zeros) + self.zeros[:1],
            self.ones.clone(),
            self.tens.clone(),
        )

    def read(self, x: Tensor) -> Tensor:
        """Scores, and what a method that only reads could take for a constant."""
        return F.linear(self.first(x), self.keys) + F.linear(self.keys[:1], self.values * 2)

    def reset(self, x: Tensor) -> Tensor:
        """Clears the keys, not the values."""
        self.keys.zero_()
        result: Tensor = self.first(x)
        return result


def _loaded(model: Model, folder: Path) -> dict[str, ExportedProgram]:
    archive.save(export(model), str(folder / "float.pt2"))
    return archive.load(str(folder / "float.pt2")).methods


def _stored(model: QuantizedModel, folder: Path) -> dict[str, ExportedProgram]:
    """Returns a model out of a file, with state that can be written to."""
    archive.save(model.methods, str(folder / "quantized.pt2"))
    methods = archive.load(str(folder / "quantized.pt2")).methods
    state: dict[str, Tensor] = {}
    for program in methods.values():
        for name in written_state(methods.values()) & program.state_dict.keys():
            value = program.state_dict[name]
            own = nn.Parameter(value.clone(), False) if isinstance(value, nn.Parameter) else value.clone()
            program.state_dict[name] = state.setdefault(name, own)
    return methods


@pytest.mark.parametrize("name", _SETTINGS)
def test_caches_of_equal_values(name: str, tmp_path: Path) -> None:
    settings, least = _SETTINGS[name]
    inputs, at = _TOKENS[0][0]
    methods = _loaded(Model(Caches(), (inputs, at)), tmp_path)
    model = quantize_model(methods, {"forward": _TOKENS}, Settings(**settings))
    (program,) = _stored(model, tmp_path).values()
    assert written_state([program]) == {"keys", "values", "ones", "tens"}
    module, run = Caches(), program.module(check_guards=False)
    quantization = model.inputs.get("forward", {}).get("x")
    for index, ((x, at), _) in enumerate(_TOKENS):
        with torch.no_grad():
            exact, *counts = module(x, at)
            found, *counted = run(quantize(x, quantization) if quantization else x, at)
        if quantization:
            scale = model.outputs["forward"][0]
            found = (found.to(torch.float32) - scale.zero_point) * scale.scale
        assert signal_to_noise(exact, found) > least, index
        assert counted == counts == [index + 1, 10 * index + 10]


@pytest.mark.parametrize("name", ["int8", "dynamic int8", "int4 weights"])
def test_methods_share_their_state_and_no_other(name: str, tmp_path: Path) -> None:
    x, at = _TOKENS[0][0]
    others = {"read": Method("read", (x,)), "reset": Method("reset", (x,))}
    rows: list[Sample] = [((row[None],), {}) for row in _ROWS]
    samples = {"forward": _TOKENS, "read": rows, "reset": rows}
    module = Caches()
    with torch.no_grad():  # the range of scores comes from keys
        module.keys.normal_()
        module.values.copy_(module.keys)
    initial = module.keys.clone()
    methods = _loaded(Model(module, (x, at), methods=others), tmp_path)
    programs = _stored(quantize_model(methods, samples, Settings(**_SETTINGS[name][0])), tmp_path)
    for method, program in programs.items():
        used = {"keys", "values"} if method != "reset" else {"keys"}
        assert used <= program.state_dict.keys(), method
        for state in used:
            assert torch.equal(program.state_dict[state], initial)
    pointers = [program.state_dict["keys"].data_ptr() for program in programs.values()]
    assert len(set(pointers)) == 1 and programs["read"].state_dict["values"].data_ptr() not in pointers
    # A method reads what another one writes; torch copies none of it.
    run = {method: program.module(check_guards=False) for method, program in programs.items()}
    eager = Caches()
    eager.load_state_dict({**module.state_dict(), "keys": initial, "values": initial, "ones": torch.zeros(1)})
    least = 8 if name == "int8" else 14
    for method, (sample, _) in [
        ("forward", _TOKENS[0]),
        ("read", _TOKENS[0]),
        ("forward", _TOKENS[1]),
        ("read", _TOKENS[1]),
        ("reset", _TOKENS[1]),
        ("forward", _TOKENS[2]),
        ("read", _TOKENS[2]),
    ]:
        arguments = sample if method == "forward" else sample[:1]
        with torch.no_grad():
            exact, found = getattr(eager, method)(*arguments), run[method](*arguments)
        if method == "forward":
            (exact, *counts), (found, *counted) = exact, found
            assert counts == counted
        assert signal_to_noise(exact, found) > least, method


class Window(nn.Module):
    """Scores of a window of samples, to which another method appends."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("window", torch.zeros(6, 8))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(self.window) @ x.T
        return result

    def append(self, x: Tensor) -> Tensor:
        self.window.copy_(torch.cat([self.window[1:], 10 * x]))
        result: Tensor = self.layer(x)
        return result


def test_a_method_that_reads_state_is_observed_after_one_that_writes_it(tmp_path: Path) -> None:
    rows: list[Sample] = [((row[None],), {}) for row in _ROWS]
    x = _ROWS[:1]
    methods = _loaded(Model(Window(), (x,), methods={"append": Method("append", (x,))}), tmp_path)
    quantized = quantize_model(methods, {"forward": rows, "append": rows}, Settings())
    assert list(quantized.methods) == ["forward", "append"]
    programs = _stored(quantized, tmp_path)
    run = {method: program.module(check_guards=False) for method, program in programs.items()}
    module = Window()
    with torch.no_grad():
        for row in _ROWS:
            module.append(row[None])
            run["append"](row[None])
        assert signal_to_noise(module(x), run["forward"](x)) > 25


def test_a_method_that_reads_state_is_observed_with_all_states(tmp_path: Path) -> None:
    """The last state is that of small rows."""
    rows = torch.cat([_ROWS, _ROWS * 0.01])
    samples: list[Sample] = [((row[None],), {}) for row in rows]
    x = rows[5:6]
    methods = _loaded(Model(Window(), (x,), methods={"append": Method("append", (x,))}), tmp_path)
    quantized = quantize_model(methods, {"forward": samples, "append": samples}, Settings())
    programs = _stored(quantized, tmp_path)
    run = {method: program.module(check_guards=False) for method, program in programs.items()}
    module = Window()
    with torch.no_grad():
        for row in _ROWS:
            module.append(row[None])
            run["append"](row[None])
        assert signal_to_noise(module(x), run["forward"](x)) > 25


def test_a_weight_that_calls_write_to(tmp_path: Path) -> None:
    class Decaying(nn.Module):
        """Two layers of equal weights; each call halves one of them, another method reads both."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.other = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
            self.last = nn.Linear(8, 8)
            self.other.weight.data.copy_(self.one.weight)

        def forward(self, x: Tensor) -> Tensor:
            self.one.weight.mul_(0.5)
            result: Tensor = self.last(self.one(x) + self.other(x))
            return result

        def read(self, x: Tensor) -> Tensor:
            result: Tensor = self.last(self.one(x) - self.other(x))
            return result

    x = _ROWS
    for activation in ("int8", "dynamic_int8"):
        model = Model(Decaying(), (x,), methods={"read": Method("read", (x,))})
        methods = _loaded(model, tmp_path)
        samples: dict[str, list[Sample]] = {"forward": [((x,), {})] * 3, "read": [((x,), {})]}
        programs = _stored(quantize_model(methods, samples, Settings(activation=activation)), tmp_path)
        run = {method: program.module(check_guards=False) for method, program in programs.items()}
        module = Decaying().requires_grad_(False)
        for method in ("forward", "forward", "forward", "read"):  # as in the samples
            with torch.no_grad():
                exact, found = getattr(module, method)(x), run[method](x)
            assert signal_to_noise(exact, found) > 25, (activation, method)


def test_a_norm_whose_statistics_calls_write_to(tmp_path: Path) -> None:
    class Adapting(nn.Module):
        """A batch norm whose mean another method moves."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer, self.norm, self.last = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.last(self.norm(self.layer(x)))
            return result

        def adapt(self, x: Tensor) -> Tensor:
            assert self.norm.running_mean is not None
            self.norm.running_mean.add_(0.5)
            result: Tensor = self.last(x)
            return result

    x, wide = torch.randn(2, 3, 4, 4), torch.randn(2, 4, 4, 4)
    for activation in ("int8", "dynamic_int8"):
        model = Model(Adapting(), (x,), methods={"adapt": Method("adapt", (wide,))})
        samples: dict[str, list[Sample]] = {"forward": [((x,), {}), ((x * 2,), {})], "adapt": [((wide,), {})]}
        quantized = quantize_model(_loaded(model, tmp_path), samples, Settings(activation=activation))
        programs = _stored(quantized, tmp_path)
        run = {method: program.module(check_guards=False) for method, program in programs.items()}
        module = Adapting().eval()
        with torch.no_grad():
            assert signal_to_noise(module(x), run["forward"](x)) > 25
            module.adapt(wide), run["adapt"](wide)
            assert signal_to_noise(module(x), run["forward"](x)) > 15, activation


def test_quantized_values_of_several_methods_have_several_names(tmp_path: Path) -> None:
    """A bias has the scale of its layer's operands, whose ranges are those of each method."""
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    module = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    model = Model(module, (x,), methods={"wide": Method("forward", (x * 10,))})
    samples: dict[str, list[Sample]] = {"forward": [((x,), {})], "wide": [((x * 10,), {})]}
    programs = _stored(quantize_model(_loaded(model, tmp_path), samples, Settings()), tmp_path)
    found: dict[str, Tensor] = {}
    for program in programs.values():
        for name, tensor in {**program.state_dict, **program.constants}.items():
            assert torch.equal(found.setdefault(name, tensor), tensor), name
    assert {"0.bias_levels", "0.bias_levels_1", "0.weight_levels"} <= found.keys()
    for factor, program in zip((1, 10), programs.values(), strict=True):
        with torch.no_grad():
            run = program.module(check_guards=False)
            assert signal_to_noise(module(x * factor), run(x * factor)) > 30


def test_zeros_of_both_signs_are_two_constants(tmp_path: Path) -> None:
    class Signs(nn.Module):
        plus: Tensor
        minus: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("plus", torch.zeros(4))
            self.register_buffer("minus", -torch.zeros(4))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(x) + torch.copysign(x, self.plus), self.layer(x) + torch.copysign(x, self.minus)

    x = torch.ones(1, 4)
    methods = _loaded(Model(Signs(), (x,)), tmp_path)
    model = quantize_model(methods, {}, Settings(activation="dynamic_int8"))
    one, other = model.methods["forward"].module(check_guards=False)(x)
    torch.testing.assert_close(one - other, torch.full((1, 4), 2.0))
