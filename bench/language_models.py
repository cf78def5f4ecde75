# SPDX-License-Identifier: Apache-2.0
"""Measures calls of a language model in the stock runtime, at several positions: CPU ms on one thread.

    bazel run //bench:language_models -- --layers=4 --context=1024 --context=4096 --program peer=/tmp/peer.pte

The model has the shape of Qwen3-0.6B with random weights, a vocabulary of 2,048, and int4 weights in groups
of 32. Programs of other compilers, with the same method `forward`, take turns with ours in one process; each
figure is the least of all rounds.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
from executorch.extension.pybindings import _portable_lib
from tables import table
from transformers import AutoModelForCausalLM, Qwen3Config

import delegatec
from delegatec.lowering import lower
from delegatec.program import write_program

_PREFILL: Final = 128
_PROMPT: Final = 120
_POSITIONS: Final = (0, 128, 512, 900, 2000, 4000)
_SETTINGS: Final[dict[str, Any]] = {"weights": "int4", "group_size": 32}
# A token takes less than the clock's resolution allows to measure once.
_STEPS: Final = 3


def write_checkpoint(folder: Path, layers: int) -> None:
    """Writes a checkpoint with random weights."""
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=2048,
        tie_word_embeddings=False,
    )
    network: Any = AutoModelForCausalLM.from_config(config)
    network.to(torch.bfloat16).save_pretrained(folder)


def program(folder: Path, context: int) -> bytes:
    """Returns the program of a checkpoint for XNNPACK."""
    model = delegatec.language_model(folder, context=context, prefill=_PREFILL, **_SETTINGS)
    methods = delegatec.export(model)
    file = io.BytesIO()
    write_program(lower(methods, "xnnpack", constant_methods=model.constant_methods).emitted, file)
    return file.getvalue()


def calls(context: int) -> Iterator[tuple[int, int]]:
    """Yields the number of tokens and the position of each measured call."""
    yield from ((1, position) for position in _POSITIONS if position < context)
    yield from ((_PROMPT, position) for position in (0, context - _PROMPT - 64))


def measure(programs: dict[str, Any], context: int, rounds: int) -> list[list[str]]:
    """Returns a row for each program."""
    least: dict[tuple[str, int, int], float] = {}
    for _ in range(rounds):
        for count, position in calls(context):
            inputs = (torch.arange(count)[None] + 5, torch.tensor([position]))
            for name, loaded in programs.items():
                for _ in range(_STEPS if count == 1 else 1):
                    start = time.process_time()
                    loaded.run_method("forward", inputs)
                    key, seconds = (name, count, position), time.process_time() - start
                    least[key] = min(seconds, least.get(key, seconds))
    return [[name, *(f"{least[name, *call] * 1e3:.1f}" for call in calls(context))] for name in programs]


def main() -> None:
    """Prints a table for each context."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--context", type=int, action="append", help="default: 1024")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument(
        "--program", action="append", default=[], metavar="NAME=PTE", help="of another compiler, in turns"
    )
    arguments = parser.parse_args()
    _portable_lib._unsafe_reset_threadpool(1)
    with suppress(ImportError):  # kernels of the peer's programs
        importlib.import_module("executorch.extension.llm.custom_ops.custom_ops")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_checkpoint(folder, arguments.layers)
        for context in arguments.context or [1024]:
            path = folder / f"{context}.pte"
            path.write_bytes(program(folder, context))
            paths = {"delegatec": str(path), **dict(each.split("=", 1) for each in arguments.program)}
            programs = {name: _portable_lib._load_for_executorch(path) for name, path in paths.items()}
            headings = [f"{count} at {position}" for count, position in calls(context)]
            rows = measure(programs, context, arguments.rounds)
            print(f"context {context}, {os.path.getsize(path):,} bytes")
            print(table(["program", *headings], 1, rows))


if __name__ == "__main__":
    main()
