# SPDX-License-Identifier: Apache-2.0
"""One model in a separate process: lowered by both tools for the runtime's kernels, compared with eager mode.

    inference_trial.py FUNCTION_OF_MODELS FILE.pt2 --rounds=3

The last line on stdout is the result as JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import models
import ours
import peer
import torch
from stopwatch import Stopwatch
from torch.utils import _pytree as pytree

from delegatec.program.reader import read_program

EAGER: Final = "eager"
_TOOLS: Final = (peer, ours)
_PORTABLE: Final = "portable"


@dataclass
class Run:
    """The cost of one call of a model.

    Attributes:
        seconds: minimum CPU seconds over all rounds.
        difference: the largest absolute difference of an output from eager mode, relative to the largest
            absolute value in it.
        instructions: of the program file; 0 for eager.
        planned: bytes of planned memory; 0 for eager.
    """

    seconds: float
    difference: float = 0.0
    instructions: int = 0
    planned: int = 0


def run(name: str, model: Path, rounds: int) -> dict[str, Run]:
    """Runs eager mode, the peer's program and ours alternately, and returns the cost of each."""
    torch.manual_seed(0)
    built = getattr(models, name)()
    module, args, kwargs = built.module.eval(), built.example_inputs, dict(built.example_kwargs or {})
    calls: dict[str, Callable[[], Any]] = {EAGER: lambda: module(*args, **kwargs)}
    runs = {EAGER: Run(float("inf"))}
    with tempfile.TemporaryDirectory() as temporary, torch.no_grad():
        for tool in _TOOLS:
            path = Path(temporary) / f"{tool.NAME}.pte"
            calls[tool.NAME] = _program(tool, model, path, pytree.tree_leaves((args, kwargs)))
            (method,) = read_program(path).methods
            instructions = sum(len(chain.instructions) for chain in method.chains)
            runs[tool.NAME] = Run(float("inf"), 0.0, instructions, sum(method.arena_bytes))
        outputs: dict[str, list[Any]] = {}
        for _ in range(rounds):
            for each, call in calls.items():
                start = time.process_time()
                result = call()
                runs[each].seconds = min(runs[each].seconds, time.process_time() - start)
                outputs[each] = pytree.tree_leaves(result)
    for each, found in outputs.items():
        runs[each].difference = _difference(found, outputs[EAGER])
    return runs


def _program(tool: ModuleType, model: Path, path: Path, inputs: list[Any]) -> Callable[[], Any]:
    """Lowers a model by a tool, and loads the program in the stock runtime."""
    from executorch.extension.pybindings import _portable_lib

    tool.prepare()
    tool.lower(tool.read(model), _PORTABLE, path, Stopwatch())
    _portable_lib._unsafe_reset_threadpool(1)
    module = _portable_lib._load_for_executorch(str(path))
    return lambda: module.run_method("forward", inputs)


def _difference(outputs: list[Any], expected: list[Any]) -> float:
    pairs = zip(outputs, expected, strict=True)
    return max(float((one.float() - other.float()).abs().max() / other.abs().max()) for one, other in pairs)


def main() -> None:
    """Parses the command line and prints the runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="a function of models.py")
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    runs = run(arguments.name, arguments.model, arguments.rounds)
    print(json.dumps({name: asdict(run) for name, run in runs.items()}))


if __name__ == "__main__":
    main()
