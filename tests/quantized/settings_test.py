# SPDX-License-Identifier: Apache-2.0
"""A decoder that `quantized_program` quantizes without samples, as torchao does, is one delegate."""

from __future__ import annotations

import ast
import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup

from delegatec import Model
from delegatec.backends.xnnpack.checking.values import TYPE_NAMES
from delegatec.backends.xnnpack.testing.grid import graph_of, operations
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.frontend.export import export
from delegatec.lowering import Program, lower
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from tests.oracle.oracle import OracleProgram
from tests.quantized.llama import Llama, example

INT4: Final[torch.dtype] = getattr(torch, "int4")  # noqa: B009 - torch does not declare it
ROWS, GROUPS = PerAxis(0), PerGroup(32)


def _dynamic(dtype: torch.dtype, scales: Any) -> Any:
    return Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=scales)


def _weights(dtype: torch.dtype, scales: Any) -> Any:
    return IntxWeightOnlyConfig(weight_dtype=dtype, granularity=scales)


def _halves(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = layer.weight.data.half().float()


# Settings, the equivalent in torchao, the largest share of the weights in bytes, and the ratio of signal and
# error that was found in the runtime, in dB.
CONFIGS: Final[dict[str, tuple[dict[str, Any], Callable[[nn.Module], None], float, float]]] = {
    "8da8w": (
        {"activation": "dynamic_int8"},
        lambda module: quantize_(module, _dynamic(torch.int8, ROWS)),
        *(0.26, 42.5),
    ),
    "8da4w": (
        {"activation": "dynamic_int8", "weight": "int4"},
        lambda module: quantize_(module, _dynamic(INT4, ROWS)),
        *(0.135, 23.7),
    ),
    "8da4w, groups": (
        {"activation": "dynamic_int8", "weight": "int4", "group_size": 32},
        lambda module: quantize_(module, _dynamic(INT4, GROUPS)),
        *(0.15, 23.7),
    ),
    "int8": (
        {"activation": "float"},
        lambda module: quantize_(module, _weights(torch.int8, ROWS)),
        *(0.26, 48.3),
    ),
    "int8, groups": (
        {"activation": "float", "group_size": 32},
        lambda module: quantize_(module, _weights(torch.int8, GROUPS)),
        *(0.31, 48.3),
    ),
    "int4": (
        {"activation": "float", "weight": "int4"},
        lambda module: quantize_(module, _weights(INT4, ROWS)),
        *(0.135, 23.7),
    ),
    "int4, groups": (
        {"activation": "float", "weight": "int4", "group_size": 32},
        lambda module: quantize_(module, _weights(INT4, GROUPS)),
        *(0.2, 23.7),
    ),
    "float16": ({"activation": "float", "weight": "float16"}, _halves, 0.506, 74.7),
}


def _lowered(module: nn.Module, inputs: tuple[Tensor, ...], **settings: Any) -> tuple[nn.Module, Program]:
    """Returns the quantized program as a module, and for XNNPACK."""
    methods = quantize_model(export(Model(module, inputs)), {}, Settings(**settings)).methods
    return methods["forward"].module(check_guards=False), lower(methods, "xnnpack")


def _file(lowered: Program) -> bytes:
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    return file.getvalue()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_decoder_is_that_of_torchao(name: str) -> None:
    settings, config, share, found = CONFIGS[name]
    module, inputs = Llama().eval(), example()
    size = sum(each.weight.numel() * 4 for each in module.modules() if isinstance(each, nn.Linear))
    with torch.no_grad():
        exact = module(*inputs)
        run, lowered = _lowered(module, inputs, **settings)
        config(module)
        wanted, eager = module(*inputs), run(*inputs)
    assert exact.abs().max() > 0.5
    assert (eager - wanted).abs().max() < 1e-5
    report = lowered.reports["forward"]
    assert (len(report.delegates), report.rejections) == (1, [])
    file = _file(lowered)
    assert len(file) < share * size, len(file) / size
    (result,) = OracleProgram(file).run(inputs)
    # the runtime stores the scales of groups as bfloat16
    tolerance = 0.01 if name == "8da4w, groups" else 1e-5
    assert (result - wanted).abs().max() < tolerance * exact.abs().max()
    assert signal_to_noise(exact, result) == pytest.approx(found, abs=1)


def _recipes() -> dict[str, dict[str, Any]]:
    """Returns the settings of each `quantized_program` on the page of the backend."""
    page = (Path(__file__).parents[2] / "docs" / "xnnpack.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```starlark\n(.*?)```", page, re.DOTALL)
    rules = [rule for block in blocks for rule in ast.walk(ast.parse(block)) if isinstance(rule, ast.Call)]
    attributes = [
        {each.arg or "": ast.literal_eval(each.value) for each in rule.keywords}
        for rule in rules
        if isinstance(rule.func, ast.Name) and rule.func.id == "quantized_program"
    ]
    return {each.pop("name"): {k: v for k, v in each.items() if k != "program"} for each in attributes}


@pytest.mark.parametrize(("name", "kind"), [("foo_8da8w", "CHANNEL_INT8"), ("foo_8da4w", "GROUP_INT4")])
def test_the_recipes_of_the_page(name: str, kind: str) -> None:
    recipes = _recipes()
    assert set(recipes) == {"foo_8da8w", "foo_8da4w"}
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16)).eval()
    x = torch.rand(1, 64)
    run, lowered = _lowered(module, (x,), **recipes[name])
    report = lowered.reports["forward"]
    (delegate,) = report.delegates
    assert not report.rejections
    blob = delegate.module.blob_bytes()
    assert operations(blob) == ["Convert", "FullyConnected", "Convert", "FullyConnected"]
    types = Counter(TYPE_NAMES[tensor_of(value).dataType] for value in graph_of(blob).values or [])
    assert (types[kind], types["DYNAMIC_INT8"]) == (2, 2)
    (result,) = OracleProgram(_file(lowered)).run((x,))
    with torch.no_grad():
        wanted = run(x)
    assert (result - wanted).abs().max() <= 0.01 * wanted.abs().max()
