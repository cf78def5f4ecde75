# SPDX-License-Identifier: Apache-2.0
"""Families of language models in the stock runtime: the greedy tokens of transformers.

`language_models_rest_test.py` has the families and combinations that are left out here.
"""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec import language_model
from delegatec.frontend.export import export
from delegatec.language.comparison import divergence
from delegatec.language.lora.fitted import fitted
from delegatec.language.lora.folder import read_adapter
from delegatec.language.lora.testing import write_adapter
from delegatec.language.running import RunningModel
from delegatec.language.testing import FAMILIES, write_family
from delegatec.lowering import lower
from delegatec.program import weights_of, write_program
from tests.oracle.language_families import (
    EXPERTS,
    INT4,
    INT8,
    TOKENS,
    Executor,
    check_adapters_of_quantized_weights,
    check_greedy_tokens,
    check_quantized_experts,
    flat_tensors,
    sampled,
)
from tests.oracle.oracle import OracleProgram, mapped

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("name", sampled(FAMILIES))
def test_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_greedy_tokens(name, tmp_path)


@pytest.mark.parametrize(("name", "settings"), EXPERTS)
def test_quantized_experts(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    check_quantized_experts(name, settings, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("settings", "bits", "least"),
    [
        ({}, 32, 80),
        ({"weights": "float16"}, 16, 80),
        ({"weights": "int8"}, 8, 25),
        ({"weights": "int4", "group_size": 32}, 8, 25),
        ({"weights": "int4", "group_size": 32, "embedding": "int4"}, 4, 25),
        ({"weights": "int4", "embedding": "int4"}, 4, 25),
    ],
)
def test_tied_weights_are_in_the_file_once(
    settings: dict[str, Any], bits: int, least: float, tmp_path: Path
) -> None:
    """A kernel gathers rows of the weight that a delegate multiplies by."""
    rows, columns = 16384, 64
    write_family("Qwen3", tmp_path, vocab_size=rows, hidden_size=columns)
    model = language_model(str(tmp_path), context=24, prefill=8, **settings)
    file = io.BytesIO()
    write_program(lower(export(model), "xnnpack", constant_methods=model.constant_methods).emitted, file)
    pte = file.getvalue()
    assert len(pte) < 1.5 * rows * columns * bits // 8
    for executor in (Executor(pte), Executor(pte, load=OracleProgram)):
        program, start = RunningModel(executor), 0
        for count in (5, 1):
            tokens = torch.randint(0, rows, (1, count))
            with torch.no_grad():
                wanted = model.module(tokens, torch.tensor([start]))[0]
            assert divergence(wanted, program.after(tokens[0].tolist(), start)[None]).snr_db > least
            start += count


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "precision", "least", "cache", "context"),
    [
        *(("Qwen3", "fp32", 45, cache, context) for cache in ("float16", "int8") for context in (24, 300)),
        *(("Gemma 2", "fp32", 45, *each) for each in (("float16", 300), ("int8", 24))),
        *(("Qwen3", "fp16", 30, *each) for each in (("float16", 24), ("int8", 300))),
    ],
)
def test_caches(name: str, precision: str, least: float, cache: str, context: int, tmp_path: Path) -> None:
    """Of all rows, and of the filled ones."""
    write_family(name, tmp_path, max_position_embeddings=512)
    model = language_model(str(tmp_path), context=context, prefill=8, cache=cache)
    file = io.BytesIO()
    options = {"precision": precision}
    lowered = lower(export(model), "xnnpack", options, constant_methods=model.constant_methods)
    write_program(lowered.emitted, file)
    program, start = RunningModel(Executor(file.getvalue())), 0
    for count in (5, 8, 1, 1, 4):
        tokens = torch.randint(0, 99, (1, count))
        with torch.no_grad():
            wanted = model.module(tokens, torch.tensor([start]))[0]
        # a value between two roundings may go either way
        assert divergence(wanted, program.after(tokens[0].tolist(), start)[None]).snr_db > least
        start += count


@pytest.mark.parametrize("name", ["Qwen3", "GPT-2", "LFM2"])
def test_adapters_of_one_program(name: str, tmp_path: Path) -> None:
    """The greedy tokens of transformers without an adapter, and with each of two."""
    network = write_family(name, tmp_path)
    modules = {"GPT-2": ["c_attn", "c_fc"], "LFM2": ["in_proj", "w1"]}.get(name, ["q_proj", "down_proj"])
    model = language_model(str(tmp_path), context=24, prefill=8, adapter_rank=6, adapter_modules=modules)
    programs = export(model)
    own = weights_of(programs, model.external_weights)
    changed = {flat_tensors(own): network}
    for rank in (3, 6):
        folder = tmp_path / str(rank)
        adapted = write_adapter(folder, network, modules, rank=rank, seed=rank, use_rslora=rank == 3)
        weights = fitted(read_adapter(str(folder)), {key: tuple(value.shape) for key, value in own.items()})
        changed[flat_tensors(weights)] = adapted
    file = io.BytesIO()
    lowered = lower(
        programs,
        "xnnpack",
        external_weights=model.external_weights,
        constant_methods=model.constant_methods,
    )
    write_program(lowered.emitted, file)
    prompt, answers = torch.randint(0, 99, (1, 11)), []
    for data, adapted in changed.items():
        program = RunningModel(Executor(file.getvalue(), partial(mapped, ptd=data)))
        wanted = adapted.generate(prompt, max_new_tokens=TOKENS, do_sample=False)[0, 11:].tolist()
        assert program.continuation(prompt[0].tolist(), TOKENS, ()) == wanted
        with torch.no_grad():
            logits = adapted(prompt).logits[0, -1]
        answers.append(program.after(prompt[0].tolist(), 0))
        torch.testing.assert_close(answers[-1], logits, rtol=0, atol=1e-5 * float(logits.abs().max()))
    assert all((answers[0] - each).abs().max() > 0.01 for each in answers[1:])


@pytest.mark.parametrize(("precision", "settings"), [("fp32", INT8), ("fp16", INT4)])
def test_adapters_of_quantized_weights(precision: str, settings: dict[str, Any], tmp_path: Path) -> None:
    check_adapters_of_quantized_weights(precision, settings, tmp_path)
