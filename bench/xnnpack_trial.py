# SPDX-License-Identifier: Apache-2.0
"""One step of the comparison for XNNPACK in a separate process.

    xnnpack_trial.py export NAME_OF_MODEL FILE.pt2 INPUTS.pt
    xnnpack_trial.py (peer|ours) FILE.pt2 SMALL.pt2 PROGRAM.pte
    xnnpack_trial.py run NAME_OF_MODEL FILE.pt2 PEER.pte OURS.pte ROUNDS

The last line on stdout is the result as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import models
import ours
import peer
import torch
from stopwatch import Stopwatch, added_memory
from torch.utils import _pytree as pytree
from trial import Outcome, describe
from xnnpack_models import XNNPACK_MODELS, Subject

from delegatec.frontend import archive
from delegatec.frontend.export import export as export_model

EAGER: Final = "eager"
SMALL: Final = "small"
BACKEND: Final = "xnnpack fp32"


@dataclass
class Run:
    """The cost and the error of one call.

    Attributes:
        seconds: minimum CPU seconds over all rounds.
        difference: the largest absolute difference from the exported program in eager mode, over all rounds,
            relative to the largest absolute value of the output.
        loss: the same from the model before quantization.
    """

    seconds: float = float("inf")
    difference: float = 0.0
    loss: float = 0.0


def export(name: str, path: str, inputs: str) -> None:
    """Writes the `.pt2` of a model, and the inputs of its first call."""
    subject = XNNPACK_MODELS[name] if name != SMALL else Subject(models.small, models.small)
    model = _built(subject.build)
    torch.save(list(_inputs(subject, model)(0)), inputs)
    archive.save(export_model(model), path)


def lower(name: str, model: str, small: str, program: str) -> dict[str, Any]:
    """Lowers a model by a tool, in a process that has lowered a small one; returns an `Outcome`."""
    tool = importlib.import_module(name)
    tool.prepare()
    outcome = Outcome(versions=tool.version())
    path = Path(program)
    tool.lower(tool.read(Path(small)), BACKEND, path, Stopwatch())
    exported = torch.export.load(model)
    watch = Stopwatch()
    outcome.memory = added_memory(lambda: tool.lower(exported, BACKEND, path, watch))
    outcome.seconds, outcome.first = watch.seconds, sum(watch.seconds.values())
    describe(path, outcome)
    return asdict(outcome)


def run(name: str, model: str, peers: str, own: str, rounds: str) -> dict[str, Any]:
    """Runs the original model in eager mode and both programs alternately; returns a `Run` of each."""
    subject = XNNPACK_MODELS[name]
    original = _built(subject.original)
    call = _inputs(subject, original)
    module, names = original.module.eval(), list(original.example_kwargs or {})

    def eager(inputs: list[Any]) -> Any:
        return module(**dict(zip(names, inputs, strict=True))) if names else module(*inputs)

    calls: dict[str, Callable[[list[Any]], Any]] = {
        EAGER: eager,
        peer.NAME: _program(peers),
        ours.NAME: _program(own),
    }
    wanted = _exported(subject, model, eager, names)
    runs = {each: Run() for each in calls}
    with torch.no_grad():
        for number in range(int(rounds)):
            outputs = {}
            for each, function in calls.items():
                inputs = [value.clone() for value in call(number)]
                start = time.process_time()
                result = function(inputs)
                runs[each].seconds = min(runs[each].seconds, time.process_time() - start)
                outputs[each] = [value.clone() for value in pytree.tree_leaves(result)]
            expected = outputs[EAGER] if wanted is eager else pytree.tree_leaves(wanted(list(call(number))))
            for each, found in outputs.items():
                runs[each].difference = max(runs[each].difference, _difference(found, expected))
                runs[each].loss = max(runs[each].loss, _difference(found, outputs[EAGER]))
    return {each: asdict(run) for each, run in runs.items()}


def _built(build: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    return build()


def _inputs(subject: Subject, model: Any) -> Callable[[int], tuple[Any, ...]]:
    if subject.calls is not None:
        return subject.calls
    inputs = tuple(pytree.tree_leaves((model.example_inputs, dict(model.example_kwargs or {}))))
    return lambda _: inputs


def _exported(
    subject: Subject, model: str, eager: Callable[[list[Any]], Any], names: list[str]
) -> Callable[[list[Any]], Any]:
    """Returns what both programs compute: the exported program in eager mode."""
    if subject.build is subject.original:
        return eager
    module = torch.export.load(model).module()
    return lambda inputs: module(**dict(zip(names, inputs, strict=True))) if names else module(*inputs)


def _program(path: str) -> Callable[[list[Any]], Any]:
    """Loads a program in the stock runtime, on one thread."""
    from executorch.extension.pybindings import _portable_lib

    _portable_lib._unsafe_reset_threadpool(1)
    module = _portable_lib._load_for_executorch(path)
    return lambda inputs: module.run_method("forward", inputs)


def _difference(outputs: list[Any], expected: list[Any]) -> float:
    pairs = zip(outputs, expected, strict=True)
    return max(float((one.float() - other.float()).abs().max() / other.abs().max()) for one, other in pairs)


def step(name: str) -> Callable[..., Any]:
    """Returns the function of a command, for its arguments."""
    if name in (peer.NAME, ours.NAME):
        return partial(lower, name)
    return {"export": export, "run": run}[name]


def main() -> None:
    """Runs the command and prints its result."""
    command, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = step(command)(*arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
