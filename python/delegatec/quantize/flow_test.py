# SPDX-License-Identifier: Apache-2.0
"""Quantized models: their error, names, inputs, sizes and state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.diagnostics import DelegatecError
from delegatec.edge.quantization.scale import Quantization
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.boundary import quantize
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.samples import Samples
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

_SAMPLES = [torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]


class Call(nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Network(nn.Module):
    """A convolution, attention, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.SiLU())
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.features(x).flatten(2).transpose(1, 2)
        hidden = self.norm(rows + self.attention(rows, rows, rows)[0])
        result: Tensor = self.head(hidden.mean(1))
        return result


def _error(settings: Settings) -> float:
    module = Network().eval()
    model = quantized(module, (_SAMPLES[0],), settings, [((x,), {}) for x in _SAMPLES[1:4]])
    found = model.methods["forward"].module(check_guards=False)
    with torch.no_grad():
        pairs = [(module(x), found(x)) for x in _SAMPLES[4:]]
    return signal_to_noise(torch.cat([exact for exact, _ in pairs]), torch.cat([near for _, near in pairs]))


# Settings -> the signal to noise ratio that was found, in dB.
_ERRORS: dict[str, tuple[dict[str, Any], float]] = {
    "default": ({}, 29.6),
    "minmax": ({"observer": "minmax"}, 30.6),
    "symmetric": ({"ranges": "symmetric"}, 29.4),
    "one scale per weight": ({"weight_scales": "tensor"}, 29.2),
    "int4": ({"weight": "int4"}, 20.8),
    "inner": ({"inner": "int16"}, 31.7),
    "int16": ({"activation": "int16"}, 33.0),
}


@pytest.mark.parametrize("name", _ERRORS)
def test_errors(name: str) -> None:
    settings, found = _ERRORS[name]
    assert _error(Settings(**settings)) == pytest.approx(found, abs=1)


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        archive.save(quantized(Network(), (_SAMPLES[0],), Settings()).methods, str(tmp_path / name))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_names_and_modules_are_those_of_the_model(tmp_path: Path) -> None:
    (program,) = quantized(Network(), (_SAMPLES[0],), Settings()).methods.values()
    names = {spec.target for spec in program.graph_signature.input_specs if spec.target}
    parts = ("levels", "scale", "zero_point")
    assert {f"features.0.weight_{part}" for part in parts} <= names
    assert {f"head.bias_{part}" for part in parts} <= names
    assert not [name for name in names if name is not None and name.startswith("_")]
    for node in program.graph.nodes:
        if node.op == "call_function":
            assert "Wrapper" not in str(node.meta["nn_module_stack"]), node
    archive.save({"forward": program}, str(tmp_path / "a.pt2"))
    (read,) = archive.load(str(tmp_path / "a.pt2")).methods.values()
    with torch.no_grad():
        results = [each.module(check_guards=False)(_SAMPLES[1]) for each in (program, read)]
    assert torch.equal(*results)


def test_quantized_boundary() -> None:
    settings = Settings(quantize_io=True)
    model = quantized(Network(), (_SAMPLES[0],), settings, [((x,), {}) for x in _SAMPLES])
    (program,) = model.methods.values()
    quantization = model.inputs["forward"]["x"]
    assert (
        isinstance(quantization, Quantization)
        and quantization.dtype is torch.int8
        and -128 < quantization.zero_point < 127
    )
    output = model.outputs["forward"][0]
    inside = quantized(Network(), (_SAMPLES[0],), Settings(), [((x,), {}) for x in _SAMPLES])
    with torch.no_grad():
        found = program.module(check_guards=False)(quantize(_SAMPLES[1], quantization))
        expected = inside.methods["forward"].module(check_guards=False)(_SAMPLES[1])
    assert found.dtype is torch.int8 and found.unique().numel() > 4
    assert torch.equal((found.to(torch.float32) - output.zero_point) * output.scale, expected)
    assert program.example_inputs is not None and program.example_inputs[0][0].dtype is torch.int8


def test_a_boundary_in_float_is_refused() -> None:
    settings = Settings(quantize_io=True, float_operators=("aten.linear",))
    with pytest.raises(DelegatecError, match=r"DC134.*output 0 of forward is computed in float"):
        quantized(nn.Sequential(nn.Conv2d(3, 3, 8), nn.Flatten(), nn.Linear(3, 2)), (_SAMPLES[0],), settings)


def test_dynamic_sizes_stay() -> None:
    rows = torch.export.Dim("rows", min=2, max=64)
    shapes = ({0: rows}, {0: 2 * rows})

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.relu(self.layer(torch.cat([x, y])))

    torch.manual_seed(0)
    example = (torch.randn(3, 4), torch.randn(6, 4))
    module = Two().eval()
    methods = export(Model(module, example, dynamic_shapes=shapes))
    other = (torch.randn(10, 4), torch.randn(20, 4))
    (program,) = quantize_model(
        methods, {"forward": [(example, {}), (other, {})]}, Settings()
    ).methods.values()
    bounds = {(int(bounds.lower), int(bounds.upper)) for bounds in program.range_constraints.values()}
    assert bounds == {(2, 64), (4, 128)}
    with torch.no_grad():
        found = program.module(check_guards=False)(*other)
        assert found.shape == (30, 3) and signal_to_noise(module(*other), found) > 30


def test_state_is_that_of_the_model(tmp_path: Path) -> None:
    """Samples do not change it, nor is the file of the model written to."""

    class Sums(nn.Module):
        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.ones(4))
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            self.total.add_(x)
            result: Tensor = self.layer(self.total)
            return result

    archive.save(export(Model(Sums(), (torch.ones(4),))), str(tmp_path / "a.pt2"))
    methods = archive.load(str(tmp_path / "a.pt2")).methods
    (program,) = quantize_model(
        methods, {"forward": [((torch.ones(4),), {})] * 3}, Settings()
    ).methods.values()
    assert any(str(node.target).startswith("aten.copy_") for node in program.graph.nodes)
    assert torch.equal(program.state_dict["total"], torch.ones(4))
    run = program.module(check_guards=False)
    first, second = run(torch.ones(4)), run(torch.ones(4))
    assert (second - first).abs().max() > 0.1


def test_methods_share_weights() -> None:
    torch.manual_seed(0)
    module = nn.Linear(64, 64)
    examples = {"forward": (torch.randn(1, 64),), "forward_8": (torch.randn(8, 64),)}
    model = Model(module, None, methods=examples)
    samples: Samples = {name: [(example, {})] for name, example in examples.items()}
    methods = quantize_model(export(model), samples, Settings()).methods
    weights = {program.state_dict["weight_levels"].data_ptr() for program in methods.values()}
    assert set(methods) == {"forward", "forward_8"} and len(weights) == 1


class ScaledRows(nn.Module):
    """A linear function whose weight is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([-0.5]))

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x, weight, self.bias)


def test_weights_that_are_inputs_keep_their_range() -> None:
    """Half of the range was lost if no value was positive."""
    inputs = torch.rand(8, 1) + 0.5, torch.tensor([[-1.75]])
    (program,) = quantized(ScaledRows(), inputs, Settings()).methods.values()
    with torch.no_grad():
        found = program.module(check_guards=False)(*inputs)
        assert signal_to_noise(ScaledRows()(*inputs), found) > 40


@pytest.mark.parametrize(
    ("module", "settings", "words"),
    [
        (nn.Linear(4, 4), {"float_modules": ("head",)}, 'DC130.*no module "head"'),
        (nn.Linear(4, 4), {"float_operators": ("aten.conv2d",)}, 'DC130.*no operator "aten.conv2d"'),
        (nn.Linear(4, 4).double(), {}, "DC134.*no operator to quantize"),
        (nn.Identity(), {}, "DC134.*no operator to quantize"),
    ],
)
def test_mistakes(module: nn.Module, settings: dict[str, Any], words: str) -> None:
    x = torch.randn(2, 4, dtype=torch.float64 if "double" in words else torch.float32)
    x = x.to(next(iter(module.parameters()), x).dtype)
    with pytest.raises(DelegatecError, match=words):
        quantized(module, (x,), Settings(**settings))


@pytest.mark.parametrize("number", [-1e4, -torch.inf])
@pytest.mark.parametrize("form", ["sum", "fill", "input"])
def test_float_masks_do_not_widen_the_range_of_scores(form: str, number: float) -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            ignored = torch.ones(6, 6, dtype=torch.bool).triu(1)
            scores = x @ x.transpose(1, 2)
            if form == "fill":
                return torch.softmax(scores.masked_fill(ignored, number), -1) @ x
            mask = (
                torch.where(mask, 0.0, number)
                if form == "input"
                else torch.zeros(6, 6).where(~ignored, number)
            )
            return torch.softmax(scores + mask, -1) @ x

    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    inputs = (x, torch.ones(6, 6, dtype=torch.bool).tril())
    (program,) = quantized(Masked(), inputs, Settings()).methods.values()
    found = program.module(check_guards=False)(*inputs)
    assert signal_to_noise(Masked()(*inputs), found) > 20


@pytest.mark.parametrize(
    "attend",
    [
        lambda scores, mask, x: F.scaled_dot_product_attention(x, x, x, mask),
        lambda scores, mask, x: torch.softmax(scores + mask, -1) @ x,
        lambda scores, mask, x: torch.nan_to_num(torch.softmax(scores + mask, -1)) @ x,
    ],
)
def test_float_masks_may_mask_whole_rows(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return attend(x @ x.transpose(1, 2) * 8**-0.5, mask, x)

    causal = torch.full((6, 6), -torch.inf).triu(1)
    padded = causal.index_fill(0, torch.tensor([4, 5]), -torch.inf)
    noise = torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 2, 6, 8, generator=noise)
    (program,) = quantized(Masked(), (x, causal), Settings(), [((other, padded), {})]).methods.values()
    found, exact = program.module(check_guards=False)(other, padded), Masked()(other, padded)
    assert bool(found.isfinite().all())
    assert signal_to_noise(exact[:, :4], found[:, :4]) > 20


def test_a_model_is_quantized_once() -> None:
    once = quantized(nn.Linear(4, 4), (torch.ones(2, 4),), Settings()).methods
    with pytest.raises(DelegatecError, match=r"DC134.*is quantized already"):
        quantize_model(once, {"forward": [((torch.ones(2, 4),), {})]}, Settings())


def test_a_sample_that_the_model_fails_on() -> None:
    methods = export(Model(nn.Embedding(4, 4), (torch.zeros(2, dtype=torch.int64),)))
    samples: Samples = {"forward": [((torch.tensor([1, 2]),), {}), ((torch.tensor([1, 9]),), {})]}
    with pytest.raises(DelegatecError, match=r"DC132.*calibration sample 1: method forward fails"):
        quantize_model(methods, samples, Settings())


def test_a_sample_that_the_model_returns_nan_for() -> None:
    methods = export(Model(Call(torch.log), (torch.ones(2),)))
    samples: Samples = {"forward": [((torch.ones(2),), {}), ((torch.tensor([1.0, -1.0]),), {})]}
    with pytest.raises(DelegatecError, match=r"DC132.*calibration sample 1: method forward returns NaN"):
        quantize_model(methods, samples, Settings())


def _with(value: float, *, buffer: bool = False) -> nn.Module:
    module = nn.Linear(4, 4)
    if buffer:
        module.register_buffer("mask", torch.full((4,), value))
        module.register_forward_hook(lambda module, _, result: torch.maximum(result, module.mask))
    else:
        module.bias.data[1] = value
    return module


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (_with(torch.nan), 'DC134.*weight "bias" contains NaN'),
        (_with(torch.inf), 'DC134.*weight "bias" contains infinite values'),
        (_with(torch.nan, buffer=True), 'DC134.*weight "mask" contains NaN'),
        (Call(lambda x: x * 3e38), "DC134.*values without a range"),
    ],
)
def test_values_without_a_range(module: nn.Module, words: str) -> None:
    with pytest.raises(DelegatecError, match=words):
        quantized(module, (torch.tensor([[-1.0, 0.25, 0.5, 1.0]]),), Settings())


def _assembled(x: Tensor) -> Tensor:
    rows, result = torch.empty(2, 4), torch.empty_like(x)
    rows[0] = x[0] * 2
    rows[1] = x[0]
    result.copy_(rows + x)
    return result


@pytest.mark.parametrize(
    ("function", "shape"),
    [(_assembled, (2, 4)), (lambda x: F.pad(x, (1, 0, 0, 2), mode="circular") * 2, (1, 2, 4, 4))],
)
def test_uninitialized_memory_is_not_observed(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Call(function), (x,), Settings()).methods.values()
    assert not [node for node in program.graph.nodes if "empty" in str(node.target)]
    assert signal_to_noise(function(x), program.module(check_guards=False)(x)) > 30


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2), (0, 1, 2, 1)])
def test_padding_is_quantized(mode: str, pad: tuple[int, ...]) -> None:
    x = torch.randn(1, 2, 4, 4)[0 if len(pad) == 2 else slice(None)]
    module = Call(lambda x: F.pad(x, pad, mode=mode) * 2)
    (program,) = quantized(module, (x,), Settings(quantize_io=True)).methods.values()
    assert program.example_inputs is not None
    assert program.example_inputs[0][0].dtype == torch.int8


def test_infinite_buffers_are_masks() -> None:
    assert quantized(_with(-torch.inf, buffer=True), (torch.ones(2, 4),), Settings()).methods


def test_an_input_with_the_name_of_a_builtin() -> None:
    model = quantized(nn.Sequential(nn.Linear(4, 3)), (torch.randn(2, 4),), Settings(quantize_io=True))
    program = model.methods["forward"]
    assert program.example_inputs is not None
    ((example,), _) = program.example_inputs
    assert example.dtype == torch.int8
    assert program.module()(example).dtype == torch.int8


@pytest.mark.parametrize("activation", ["int8", "dynamic_int8"])
def test_a_copy_of_a_program_with_an_input_of_a_name_of_pythons(activation: str) -> None:
    """A copy of a graph renames it."""
    layers = nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Conv1d(8, 2, 1)).eval()
    x = torch.randn(2, 4, 9, generator=torch.Generator().manual_seed(0))
    methods = copy.deepcopy(export(Model(layers, (x,))))
    samples = {"forward": [((x,), {})]} if activation == "int8" else {}
    model = quantize_model(methods, samples, Settings(activation=activation))
    found = model.methods["forward"].module(check_guards=False)(x)
    assert signal_to_noise(layers(x).detach(), found) > 25


@pytest.mark.parametrize("size", [1e15, 1e30])
def test_ranges_of_large_values(size: float) -> None:
    """The observer's search overflowed, and the positive values became zero."""
    x = torch.tensor([1.0, -2.0, 0.5, 3.0])
    (program,) = quantized(Call(lambda x: x * size), (x,), Settings()).methods.values()
    with torch.no_grad():
        assert signal_to_noise(x, program.module(check_guards=False)(x) / size) > 30
