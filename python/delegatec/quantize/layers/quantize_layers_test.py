# SPDX-License-Identifier: Apache-2.0
"""Quantization without samples: layers, their weights, and activations that are quantized at run time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F  # noqa: N812
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise

TOKENS: Final = torch.arange(12)[None] % 10


class Words(nn.Module):
    """An embedding, layers that share an input, a product with a parameter, and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.norm = nn.Embedding(10, 64), nn.LayerNorm(64)
        self.gate, self.up, self.down = nn.Linear(64, 96), nn.Linear(64, 96, bias=False), nn.Linear(96, 64)
        self.mixer = nn.Parameter(torch.randn(64, 64) / 8)
        self.head = nn.Linear(64, 10, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        rows = self.norm(self.words(tokens))
        rows = rows + self.down(F.silu(self.gate(rows)) * self.up(rows))
        result: Tensor = self.head(torch.tanh(rows @ self.mixer))
        return result


class Images(nn.Module):
    """A convolution with its norm, a depthwise, a transposed one, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.deep, self.back = nn.Conv2d(16, 16, 3, groups=16), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Linear(8, 10)
        nn.init.normal_(self.norm.running_mean)  # type: ignore[arg-type]
        nn.init.uniform_(self.norm.running_var, 0.5, 2)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        x = self.back(self.deep(torch.relu(self.norm(self.wide(x)))))
        result: Tensor = self.head(x.mean((2, 3)))
        return result


X: Final = torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))


def _quantized(module: nn.Module, inputs: tuple[Tensor, ...], **settings: Any) -> ExportedProgram:
    methods = export(Model(module.eval(), inputs))
    return quantize_model(methods, {}, Settings(**settings)).methods["forward"]


def _error(module: nn.Module, inputs: tuple[Tensor, ...], **settings: Any) -> float:
    program = _quantized(module, inputs, **settings)
    with torch.no_grad():
        return signal_to_noise(module(*inputs), program.module(check_guards=False)(*inputs))


def _calls(program: ExportedProgram) -> Counter[str]:
    return Counter(node.target.__name__ for node in program.graph.nodes if node.op == "call_function")


INT4: Final[torch.dtype] = getattr(torch, "int4")  # noqa: B009 - torch does not declare it
DYNAMIC: Final[dict[str, Any]] = {"activation": "dynamic_int8"}
GROUPS: Final[dict[str, Any]] = {"weight": "int4", "group_size": 32}
# Settings -> the signal to noise ratio that was found for `Words` and `Images`, in dB.
_ERRORS: Final[dict[str, tuple[dict[str, Any], float, float]]] = {
    "8da8w": (DYNAMIC, 36.3, 54.8),
    "8da8w, one scale per weight": ({**DYNAMIC, "weight_scales": "tensor"}, 34.7, 48.3),
    "8da4w": ({**DYNAMIC, "weight": "int4"}, 14.9, 35.3),
    "8da4w, groups": ({**DYNAMIC, **GROUPS}, 15.8, 54.6),
    "8da8w, groups": ({**DYNAMIC, "group_size": 32}, 36.5, 54.6),
    "int8": ({"activation": "float"}, 37.8, 56.8),
    "float16": ({"activation": "float", "weight": "float16"}, 67.6, 80.2),
}


@pytest.mark.parametrize("name", _ERRORS)
def test_errors(name: str) -> None:
    settings, of_words, of_images = _ERRORS[name]
    kept = ("head",) if "group_size" in settings else ()  # it has 8 inputs
    found = (_error(Words(), (TOKENS,), **settings), _error(Images(), (X,), **settings, float_modules=kept))
    assert found == pytest.approx((of_words, of_images), abs=1)


def _dynamic(dtype: torch.dtype, scales: Any) -> Any:
    return Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=scales)


def _weights(dtype: torch.dtype, scales: Any) -> Any:
    return IntxWeightOnlyConfig(weight_dtype=dtype, granularity=scales)


_CONFIGS: Final[dict[str, tuple[dict[str, Any], Callable[[], Any]]]] = {
    "8da8w": (DYNAMIC, lambda: _dynamic(torch.int8, PerAxis(0))),
    "8da4w": ({**DYNAMIC, "weight": "int4"}, lambda: _dynamic(INT4, PerAxis(0))),
    "8da4w, groups": ({**DYNAMIC, **GROUPS}, lambda: _dynamic(INT4, PerGroup(32))),
    "8da8w, groups": ({**DYNAMIC, "group_size": 32}, lambda: _dynamic(torch.int8, PerGroup(32))),
    "int8": ({"activation": "float"}, lambda: _weights(torch.int8, PerAxis(0))),
    "int8, groups": ({"activation": "float", "group_size": 32}, lambda: _weights(torch.int8, PerGroup(32))),
    "int4": ({"activation": "float", "weight": "int4"}, lambda: _weights(INT4, PerAxis(0))),
    "int4, groups": ({"activation": "float", **GROUPS}, lambda: _weights(INT4, PerGroup(32))),
}


@pytest.mark.parametrize("name", _CONFIGS)
def test_quantized_values_and_results_are_those_of_torchao(name: str) -> None:
    settings, config = _CONFIGS[name]
    program = _quantized(Words(), (TOKENS,), float_operators=("aten.matmul",), **settings)
    theirs = Words().eval()
    quantize_(theirs, config(), lambda module, name: isinstance(module, nn.Linear))
    quantize_(theirs.words, _weights(torch.int8, PerAxis(0)), lambda module, name: True)
    for layer in ("gate", "up", "down", "head"):
        weight: Any = theirs.get_submodule(layer).weight
        parts = {"levels": weight.qdata, "scale": weight.scale}
        for part, wanted in parts.items():
            # the embedding, with the same weight, has int8 rows
            is_row = settings.get("weight", "int8") == "int8" and "group_size" not in settings
            suffix = "_1" if layer == "head" and not is_row else ""
            stored = program.state_dict[f"{layer}.weight_{part}{suffix}"]
            assert torch.equal(stored, wanted), (layer, part)
    with torch.no_grad():
        wanted, found = theirs(TOKENS), program.module(check_guards=False)(TOKENS)
    assert wanted.abs().max() > 0.5
    assert (found - wanted).abs().max() < 1e-5


def test_an_activation_is_quantized_once_for_all_layers_that_read_it() -> None:
    program = _quantized(Words(), (TOKENS,), **DYNAMIC)
    calls = _calls(program)
    assert calls["quantize_affine.default"] == calls["choose_qparams_affine.default"] == 4
    assert (calls["linear.default"], calls["matmul.default"]) == (5, 0)
    for node in program.graph.nodes:
        if node.op == "call_function":
            assert "Words" in str(node.meta["nn_module_stack"]), node


def test_a_tied_weight_is_stored_once() -> None:
    state = _quantized(Words(), (TOKENS,), activation="float").state_dict
    sizes = Counter(tuple(value.shape) for value in state.values() if value.dtype is torch.int8)
    assert sizes == {(10, 64): 1, (96, 64): 2, (64, 96): 1, (64, 64): 1}


def test_modules_and_operators_stay_in_float() -> None:
    settings = {"float_modules": ("gate", "head"), "float_operators": ("aten.matmul", "aten.embedding")}
    program = _quantized(Words(), (TOKENS,), **DYNAMIC, **settings)
    quantized = {name for name, value in program.state_dict.items() if value.dtype is torch.int8}
    assert quantized == {"up.weight_levels", "down.weight_levels"}
    assert {"gate.weight", "head.weight", "mixer"} <= set(program.state_dict)


def test_convolutions_have_int8_weights_or_stay_in_float() -> None:
    program = _quantized(Images(), (X,), **DYNAMIC, weight="int4")
    quantized = {name for name, value in program.state_dict.items() if value.dtype is torch.int8}
    assert quantized == {f"{layer}.weight_levels" for layer in ("wide", "back", "head")}
    widest = {name: program.state_dict[name].abs().max().item() for name in quantized}
    assert {name: most > 8 for name, most in widest.items()} == {
        name: "head" not in name for name in quantized
    }
    assert "batch_norm.default" not in _calls(program)
    kept = _quantized(Images(), (X,), activation="float")
    assert [name for name, value in kept.state_dict.items() if value.dtype is torch.int8] == [
        "head.weight_levels"
    ]


@pytest.mark.parametrize("factors", [{}, {"beta": 2.0}])
def test_sums_and_products_are_linear_layers(factors: dict[str, Any]) -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.weight, self.bias = nn.Parameter(torch.randn(64, 24)), nn.Parameter(torch.randn(24))

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.bias, x, self.weight, **factors).relu() + torch.mm(x, self.weight)

    x = torch.randn(6, 64, generator=torch.Generator().manual_seed(1))
    calls = _calls(_quantized(Product(), (x,), **DYNAMIC))
    assert (calls["linear.default"], calls["addmm.default"], calls["mm.default"]) == (
        2 - len(factors),
        len(factors),
        0,
    )
    assert _error(Product(), (x,), **DYNAMIC) > 35


def test_a_row_without_a_batch() -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(1))
    assert _error(nn.Linear(64, 32), (x,), **DYNAMIC) > 35


@pytest.mark.parametrize("settings", [DYNAMIC, {"activation": "float", **GROUPS}])
def test_sizes_may_vary(settings: dict[str, Any]) -> None:
    methods = export(
        Model(Words().eval(), (TOKENS,), dynamic_shapes={"tokens": {1: Dim("length", min=1, max=32)}})
    )
    program = quantize_model(methods, {}, Settings(**settings)).methods["forward"]
    run = program.module(check_guards=False)
    with torch.no_grad():
        for length in (3, 31):
            tokens = torch.arange(length)[None] % 10
            assert signal_to_noise(Words()(tokens), run(tokens)) > 15


def test_layers_of_one_input_stay_in_float() -> None:
    module = nn.Sequential(nn.Linear(1, 32), nn.Linear(32, 8))
    x = torch.randn(4, 1, generator=torch.Generator().manual_seed(1))
    assert _error(module, (x,), **DYNAMIC) > 30
    state = _quantized(module, (x,), **DYNAMIC).state_dict
    assert {"0.weight", "1.weight_levels"} <= set(state)


def test_layers_without_elements_stay_in_float() -> None:
    class Empty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.layer(x[:0]), self.layer(x)

    module, x = Empty().eval(), torch.randn(4, 32, generator=torch.Generator().manual_seed(1))
    empty, found = _quantized(module, (x,), **DYNAMIC).module()(x)
    assert empty.shape == (0, 8)
    assert signal_to_noise(module(x)[1], found) > 30


def test_methods_share_weights_and_bytes_repeat(tmp_path: Path) -> None:
    methods = export(Model(Words().eval(), None, methods={"forward": (TOKENS,), "one": (TOKENS[:, :1],)}))
    for name in ("a", "b"):
        model = quantize_model(methods, {}, Settings(**DYNAMIC, **GROUPS))
        archive.save(model.methods, str(tmp_path / name))
    pointers = {each.state_dict["up.weight_levels"].data_ptr() for each in model.methods.values()}
    assert set(model.methods) == {"forward", "one"} and len(pointers) == 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
