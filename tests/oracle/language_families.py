# SPDX-License-Identifier: Apache-2.0
"""Families of language models in the stock runtime."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import torch

from delegatec import language_model
from delegatec.frontend.export import export
from delegatec.language.running import RunningModel
from delegatec.language.testing import write_family
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import OracleProgram, mapped

TOKENS: Final = 8


def sampled(families: Iterable[str], *, rest: bool = False) -> list[str]:
    """Returns every second family, which the default tests run, or the rest."""
    return list(families)[rest::2]


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
