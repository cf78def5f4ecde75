# SPDX-License-Identifier: Apache-2.0
"""One trial in a separate process: writes a `.pt2`, or lowers one by one tool for one backend.

    trial.py export NAME_OF_MODEL FILE.pt2
    trial.py (ours|peer) BACKEND FILE.pt2 --warm-up=SMALL.pt2 --rounds=3

The last line on stdout is the outcome as JSON.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import tempfile
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

import torch
from arena import live_bytes
from device import device_use
from stopwatch import Stopwatch, added_memory
from torch.export import ExportedProgram

from delegatec.backends import builtin_backends
from delegatec.program.reader import read_program
from delegatec.program.reader.model import DelegateCall, KernelCall

TOOLS: Final = ("peer", "ours")
BACKENDS: Final = (
    "portable",
    *(
        f"{backend.name} {precision}".rstrip()
        for backend in builtin_backends()
        for precision in (backend.options["precision"].values if "precision" in backend.options else [""])
    ),
)
# Reading the .pt2 is separate: export and lowering in one process do not need it.
READ: Final = "read"


@dataclass
class Outcome:
    """Result and cost of lowering one model by one tool for one backend.

    Attributes:
        error: the failure, empty if none; other attributes are not set then.
        seconds: stage -> CPU seconds, median of the rounds after the first; `READ` is one of them.
        first: CPU seconds of the first lowering in the process, without reading.
        memory: maximum growth of resident memory in the first lowering, in bytes.
        weights: bytes of the model's parameters, buffers and constants.
        delegates: calls of delegates.
        operators: calls of the runtime's kernels.
        planned: bytes of planned memory.
        live: the maximum number of these bytes alive at one time.
        file: bytes of the program file.
        device: fields of `DeviceUse`.
        versions: of the tool.
    """

    error: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    first: float = 0.0
    memory: int = 0
    weights: int = 0
    delegates: int = 0
    operators: int = 0
    planned: int = 0
    live: int = 0
    file: int = 0
    device: dict[str, int] = field(default_factory=dict)
    versions: str = ""

    @property
    def lowering(self) -> float:
        """CPU seconds of everything after torch.export, except reading its file."""
        return sum(seconds for stage, seconds in self.seconds.items() if stage != READ)


def try_tool(name: str, backend: str, model: Path, warm_up: Path, rounds: int) -> Outcome:
    """Lowers the small model, then the model once to measure memory, then repeatedly."""
    tool = importlib.import_module(name)
    tool.prepare()
    outcome = Outcome(versions=tool.version())
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "program.pte"
        tool.lower(tool.read(warm_up), backend, path, Stopwatch())
        first = Stopwatch()
        outcome.weights, outcome.memory = _first(tool, backend, model, path, first)
        outcome.first = sum(first.seconds.values())
        watches = [_round(tool, backend, model, path) for _ in range(rounds)]
        outcome.seconds = {
            stage: statistics.median(watch.seconds[stage] for watch in watches)
            for stage in (watches[0].seconds if watches else ())
        }
        describe(path, outcome)
    return outcome


def _first(tool: ModuleType, backend: str, model: Path, path: Path, watch: Stopwatch) -> tuple[int, int]:
    """Returns the bytes of weights, and the growth of memory."""
    # Both start from the model loaded by torch, with all weights in memory.
    exported = torch.export.load(model)
    weights = _weights(exported)
    return weights, added_memory(lambda: tool.lower(exported, backend, path, watch))


def _round(tool: ModuleType, backend: str, model: Path, path: Path) -> Stopwatch:
    gc.collect()
    path.unlink()  # frees the pages of the last round's file, which does not count
    watch = Stopwatch()
    with watch.stage(READ):
        exported = tool.read(model)
    tool.lower(exported, backend, path, watch)
    return watch


def _weights(exported: ExportedProgram) -> int:
    tensors = [*exported.state_dict.values(), *exported.constants.values()]
    storages = [tensor.untyped_storage() for tensor in tensors if isinstance(tensor, torch.Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def describe(path: Path, outcome: Outcome) -> None:
    (method,) = read_program(path).methods
    instructions = method.chains[0].instructions
    outcome.delegates = sum(isinstance(each, DelegateCall) for each in instructions)
    outcome.operators = sum(isinstance(each, KernelCall) for each in instructions)
    outcome.planned = sum(method.arena_bytes)
    outcome.live = live_bytes(method)
    outcome.file = path.stat().st_size
    outcome.device = asdict(device_use(method))


def _export(name: str, path: str) -> None:
    import models
    from vulkan_models import VULKAN_MODELS

    builders = {"small": models.small, **models.MODELS, **VULKAN_MODELS}
    from delegatec.frontend import archive
    from delegatec.frontend.export import export

    torch.manual_seed(0)
    archive.save(export(builders[name]()), path)


def main() -> None:
    """Parses the command line and prints the outcome."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=("export", *TOOLS))
    parser.add_argument("what", help="name of a model, or a backend")
    parser.add_argument("model", type=Path)
    parser.add_argument("--warm-up", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if arguments.tool == "export":
        _export(arguments.what, str(arguments.model))
        return
    try:
        outcome = try_tool(
            arguments.tool, arguments.what, arguments.model, arguments.warm_up, arguments.rounds
        )
    except Exception as error:  # noqa: BLE001 - a failure of a tool is a result
        traceback.print_exc()
        text = str(error).strip().splitlines()
        outcome = Outcome(error=f"{type(error).__name__}: {text[-1] if text else ''}"[:200])
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
