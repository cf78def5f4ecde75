# SPDX-License-Identifier: Apache-2.0
"""Families of language models in the stock runtime."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from delegatec import language_model
from delegatec.frontend.export import export
from delegatec.language.comparison import divergence
from delegatec.language.lora.fitted import fitted
from delegatec.language.lora.folder import read_adapter
from delegatec.language.lora.testing import write_adapter
from delegatec.language.running import RunningModel
from delegatec.language.testing import write_family
from delegatec.lowering import lower
from delegatec.program import write_flat_tensors, write_program
from tests.oracle.oracle import OracleProgram, mapped

TOKENS: Final = 8
INT8: Final[dict[str, Any]] = {"weights": "int8"}
INT4: Final[dict[str, Any]] = {"weights": "int4", "group_size": 32}

EXPERTS: Final = [("Qwen3-MoE", INT8), ("Mixtral", INT4), ("gpt-oss", INT4), ("GPT-2", INT8)]
"""Families with experts or without, and the settings of their weights, which the default tests run."""


def sampled(families: Iterable[str], *, rest: bool = False) -> list[str]:
    """Returns every third family, which the default tests run, or the rest."""
    return [name for number, name in enumerate(families) if bool(number % 3) == rest]


class Executor:
    """A program in the stock runtime, with the order of arguments of executors."""

    name = "executorch"

    def __init__(self, pte: bytes, load: Callable[[bytes], OracleProgram] = mapped) -> None:
        self._program = load(pte)

    def run(self, method: str, inputs: Sequence[Any], /) -> Sequence[Any]:
        return self._program.run(inputs, method)


def check_greedy_tokens(name: str, folder: Path) -> None:
    """Compares greedy tokens with those of transformers.

    A prompt in two chunks, then steps beyond windows of attention; a second prompt after it.
    """
    network = write_family(name, folder)
    model = language_model(str(folder), context=24, prefill=8)
    file = io.BytesIO()
    write_program(lower(export(model), "xnnpack", constant_methods=model.constant_methods).emitted, file)
    program = RunningModel(Executor(file.getvalue()))
    for count in (11, 3):
        prompt = torch.randint(0, network.config.vocab_size, (1, count))
        wanted = network.generate(prompt, max_new_tokens=TOKENS, do_sample=False)[0, count:].tolist()
        assert program.continuation(prompt[0].tolist(), TOKENS, ()) == wanted
        with torch.no_grad():
            logits = network(torch.tensor([[*prompt[0].tolist(), *wanted]])).logits[0, -1]
        found = program.after(wanted[-1:], count + TOKENS - 1)
        torch.testing.assert_close(found, logits, rtol=0, atol=1e-5 * float(logits.abs().max()))


def check_quantized_experts(name: str, settings: dict[str, Any], folder: Path) -> None:
    """Compares a model of quantized weights with eager mode.

    In delegates, operands of layers are rounded in another order than there.
    """
    write_family(name, folder)
    model = language_model(str(folder), context=24, prefill=8, **settings)
    lowered = lower(export(model), "xnnpack", constant_methods=model.constant_methods)
    assert not any(each.operator == "aten.linear.default" for each in lowered.reports["forward"].rejections)
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program, start = RunningModel(Executor(file.getvalue())), 0
    for count in (5, 8, 1, 1):
        tokens = torch.randint(0, 99, (1, count))
        with torch.no_grad():
            wanted = model.module(tokens, torch.tensor([start]))[0]
        assert divergence(wanted, program.after(tokens[0].tolist(), start)[None]).snr_db > 25
        start += count


def flat_tensors(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Returns the file with tensors."""
    file = io.BytesIO()
    write_flat_tensors(tensors, file)
    return file.getvalue()


def check_adapters_of_quantized_weights(precision: str, settings: dict[str, Any], folder: Path) -> None:
    """Compares with eager mode; the program has as many delegates as one without adapters."""
    network = write_family("Qwen3", folder)
    delegates = []
    for rank in (0, 4):
        model = language_model(
            str(folder),
            context=24,
            prefill=8,
            adapter_rank=rank,
            adapter_modules=["q_proj", "down_proj"] if rank else [],
            **settings,
        )
        lowered = lower(
            export(model),
            "xnnpack",
            {"precision": precision},
            external_weights=model.external_weights,
            constant_methods=model.constant_methods,
        )
        delegates.append(len(lowered.reports["forward"].delegates))
    assert delegates[0] == delegates[1]
    write_adapter(folder / "adapter", network, ["q_proj", "down_proj"])
    tensors = dict(model.module.named_buffers())
    shapes = {key: tuple(tensors[key].shape) for key in model.external_weights}
    weights = fitted(read_adapter(str(folder / "adapter")), shapes)
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = RunningModel(Executor(file.getvalue(), partial(mapped, ptd=flat_tensors(weights))))
    for key, value in weights.items():
        tensors[key].copy_(value)
    tokens = torch.randint(0, 99, (1, 8))
    with torch.no_grad():
        wanted = model.module(tokens, torch.tensor([0]))[0]
    assert divergence(wanted, program.after(tokens[0].tolist(), 0)[None]).snr_db > 25
