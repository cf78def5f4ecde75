# SPDX-License-Identifier: Apache-2.0
"""Language models that `quantized_program` quantizes, in the stock runtime: caches, prompts of any length."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torchao.quantization import IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup
from transformers import GenerationConfig, LlamaForCausalLM
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

from delegatec import Method, Model
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from tests.oracle.oracle import OracleProgram, mapped
from tests.quantized.llama import llama_config

INT4: Final[torch.dtype] = getattr(torch, "int4")  # noqa: B009 - torch does not declare it
_TOKENS: Final = (5, 17, 93, 2, 44, 8)
_STEPS: Final[list[Sample]] = [
    ((), {"input_ids": torch.tensor([[token]]), "cache_position": torch.tensor([position])})
    for position, token in enumerate(_TOKENS)
]
# Settings, and the least signal to noise ratio to the module in dB.
_SETTINGS: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "int8": ({}, 25),
    "8da4w": ({"activation": "dynamic_int8", "weight": "int4", "group_size": 32}, 12),
    "int8 weights": ({"activation": "float"}, 30),
}


def _step_of_llama() -> nn.Module:
    """One decoding step; the cache of keys and values, of zeros, is a buffer of the module."""
    torch.manual_seed(0)
    config = llama_config(128, layers=2, tokens=16)
    config.use_cache = True
    model = LlamaForCausalLM(config).eval()
    model.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", cache_config={"batch_size": 1, "max_cache_len": 8}
    )
    return TorchExportableModuleWithStaticCache(model)


def _in_runtime(methods: Mapping[str, ExportedProgram], backend: str) -> OracleProgram:
    file = io.BytesIO()
    write_program(lower(methods, backend).emitted, file)
    return mapped(file.getvalue())


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `.pt2` of a step in float."""
    path = tmp_path_factory.mktemp("float") / "step.pt2"
    method = Method("forward", (), dict(_STEPS[0][1]))
    archive.save(export(Model(_step_of_llama(), methods={"forward": method}, strict=True)), str(path))
    return path


@pytest.mark.parametrize("name", _SETTINGS)
def test_a_step_with_a_cache(name: str, step: Path, tmp_path: Path) -> None:
    """Several calls in a row: against the module, and in the runtime against the quantized program."""
    settings, least = _SETTINGS[name]
    methods = archive.load(str(step)).methods
    quantized = quantize_model(methods, {"forward": _STEPS}, Settings(**settings)).methods
    path = str(tmp_path / "quantized.pt2")
    archive.save(quantized, path)
    names = {spec.target for spec in quantized["forward"].graph_signature.input_specs}
    assert {f"{part}_cache_{layer}" for part in ("key", "value") for layer in (0, 1)} <= names
    (program,) = archive.load(path, trusted=True).methods.values()
    module, eager = _step_of_llama(), program.module(check_guards=False)
    backends = {each: _in_runtime(archive.load(path).methods, each) for each in ("portable", "xnnpack")}
    for _, keywords in _STEPS:
        with torch.no_grad():
            exact, wanted = module(**keywords), eager(**keywords)
        assert signal_to_noise(exact, wanted) > least
        for backend, runtime in backends.items():
            (found,) = runtime.run([*keywords.values()])
            # a value halfway between two quantized values may become either
            assert signal_to_noise(wanted, found) > (25 if backend == "xnnpack" else 35), backend


class Prompt(nn.Module):
    """Rows of a table for tokens, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows, self.layer = nn.Embedding(64, 64), nn.Linear(64, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        """int64 [1, 1 to 16] to float32 [1, 1 to 16, 32]."""
        result: Tensor = self.layer(self.rows(tokens))
        return result


_TABLES: Final[dict[str, Any]] = {
    "int8": {"activation": "float"},
    "one scale": {"activation": "float", "weight_scales": "tensor"},
    "dynamic int8": {"activation": "dynamic_int8"},
    "8da4w": {"activation": "dynamic_int8", "weight": "int4", "group_size": 32},
    "float16": {"activation": "float", "weight": "float16"},
    "static int8": {},
    "torchao int8": IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
    "torchao int8, groups": IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerGroup(32)),
    "torchao int4": IntxWeightOnlyConfig(weight_dtype=INT4, granularity=PerAxis(0)),
    "torchao int4, groups": IntxWeightOnlyConfig(weight_dtype=INT4, granularity=PerGroup(32)),
}


@pytest.mark.parametrize("name", _TABLES)
def test_a_table_of_tokens_and_a_dynamic_prompt(name: str, tmp_path: Path) -> None:
    settings, module = _TABLES[name], Prompt().eval()
    if not isinstance(settings, dict):
        quantize_(module, settings, lambda each, _: isinstance(each, nn.Embedding))
    tokens = torch.arange(60, 65)[None] % 64
    methods = export(Model(module, (tokens,), dynamic_shapes=({1: Dim("length", min=1, max=16)},)))
    if isinstance(settings, dict):
        methods = quantize_model(methods, {"forward": [((tokens,), {})]}, Settings(**settings)).methods
    run, path = methods["forward"].module(check_guards=False), str(tmp_path / "prompt.pt2")
    archive.save(methods, path)
    for backend in ("portable", "xnnpack"):
        runtime = _in_runtime(archive.load(path).methods, backend)
        for length in (1, 5, 16):
            prompt = torch.arange(length)[None] * 7 % 64
            with torch.no_grad():
                wanted = run(prompt)
            (found,) = runtime.run([prompt])
            assert found.shape == wanted.shape
            assert signal_to_noise(wanted, found) > 40, (backend, length)
