# SPDX-License-Identifier: Apache-2.0
"""Our compiler: from a `.pt2` to a `.pte`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from stopwatch import Stopwatch
from torch.export import ExportedProgram

from delegatec import lowering
from delegatec.frontend import archive
from delegatec.frontend.archive import LoadedModel
from delegatec.program import ProgramOptions, write_program

NAME: Final = "ours"
# Functions of lowering -> their names in the table.
_STAGES: Final = {"to_edge": "to_edge", "to_backend": "to_backend", "emit": "emit, plan"}


def prepare() -> None:
    """Does nothing."""


def version() -> str:
    """Returns name and version of torch."""
    return f"torch {torch.__version__}"


def read(path: Path) -> LoadedModel:
    """Reads a `.pt2` as the compiler does: its weights are mapped."""
    return archive.load(str(path))


def lower(
    exported: ExportedProgram | LoadedModel, backend: str, path: Path, watch: Stopwatch, plan: bool = True
) -> None:
    """Lowers a program and writes it.

    Args:
        exported: the program; it is edited.
        backend: of `trial.BACKENDS`.
        path: the file to write.
        watch: records the CPU time of each stage.
        plan: whether inputs and outputs are copied to and from planned memory.
    """
    name, _, precision = backend.partition(" ")
    options = {"precision": precision} if precision else {}
    if isinstance(exported, LoadedModel):
        methods, sources = exported.methods, [exported.file]
    else:
        methods, sources = {"forward": exported}, []
    program_options = ProgramOptions(plan_inputs=plan, plan_outputs=plan)
    originals = {function: getattr(lowering, function) for function in _STAGES}
    try:
        for function, stage in _STAGES.items():
            setattr(lowering, function, _timed(originals[function], watch, stage))
        lowered = lowering.lower(methods, name, options, program_options=program_options)
    finally:
        for function, original in originals.items():
            setattr(lowering, function, original)
    with watch.stage("write"), open(path, "wb") as file:
        write_program(lowered.emitted, file, sources)


def _timed(function: Callable[..., object], watch: Stopwatch, stage: str) -> Callable[..., object]:
    def run(*args: object, **kwargs: object) -> object:
        with watch.stage(stage):
            return function(*args, **kwargs)

    return run
