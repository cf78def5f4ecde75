# SPDX-License-Identifier: Apache-2.0
"""CPU seconds and memory of compiling models of several sizes, by stage, and exponents of their growth."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, Final

from scale_cases import CASES
from stopwatch import Stopwatch, added_memory, collect_as_the_worker

from delegatec import lowering
from delegatec.backends import builtin_backends
from delegatec.cli.main import run_verb
from delegatec.cli.worker import warm_up
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.program import write_program
from delegatec.report.blob_graphs import blob_graphs
from delegatec.report.build import build_manifest
from delegatec.report.debug_map import debug_map, debug_map_json
from delegatec.report.html import render_html
from delegatec.report.manifest import to_json

SIZES: Final = (1_000, 4_000)
_STAGES: Final = (
    *(
        "read",
        "to_edge",
        "to_backend",
        "emit",
        "write",
        "debug map",
        "manifest",
        "report",
        "inspect",
        "verify",
    ),
    "MiB",
)
# Stages below this have no exponent: seconds for the smaller size.
_SMALL: Final = 0.02


def table(names: Iterable[str], backends: Sequence[str], sizes: Sequence[int]) -> str:
    """Returns seconds for the largest size, and after them the exponent from the smallest one."""
    warm_up()
    collect_as_the_worker()
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for size in sizes:
                path = os.path.join(folder, "model.pt2")
                _in_child(lambda name=name, size=size, path=path: _export(name, size, path))
                for backend in backends:
                    found = _in_child(lambda path=path, backend=backend: _stages(path, backend))
                    rows.setdefault((name, backend), []).append(found)
    lines = [f"| {sizes[-1]:,} operators | backend | {' | '.join(_STAGES)} |"]
    lines.append(f"| --- | --- |{' ---: |' * len(_STAGES)}")
    for (name, backend), found in rows.items():
        cells = (_cell(found[0].get(stage), found[-1].get(stage), sizes) for stage in _STAGES)
        lines.append(f"| {name} | {backend} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(first: float | None, last: float | None, sizes: Sequence[int]) -> str:
    if first is None or last is None:
        return ""
    if first < _SMALL:
        return f"{last:.2f}"
    return f"{last:.2f} ^{math.log(last / first) / math.log(sizes[-1] / sizes[0]):.2f}"


def _in_child(work: Any) -> dict[str, float]:
    """Returns the result of a function, run in a child process; nothing if it fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    found: dict[str, float] = json.loads(text or "{}")
    return found


def _export(name: str, size: int, path: str) -> dict[str, float]:
    archive.save(export(CASES[name](size)), path)
    return {}


def _stages(path: str, backend: str) -> dict[str, float]:
    watch = Stopwatch()
    memory = added_memory(lambda: _compile(path, backend, watch))
    return {**watch.seconds, "MiB": memory / 2**20}


def _compile(path: str, backend: str, watch: Stopwatch) -> None:
    pte = f"{path}.pte"
    with watch.stage("read"):
        model = archive.load(path)
    for function in ("to_edge", "to_backend", "emit"):
        setattr(lowering, function, _timed(watch, function))
    lowered = lowering.lower(model.methods, backend)
    with watch.stage("write"), open(pte, "wb") as file:
        write_program(lowered.emitted, file, [model.file])
    with watch.stage("debug map"):
        debug_map_json(lowered.sources, lowered.emitted)
    with watch.stage("manifest"):
        manifest = build_manifest(
            lowered,
            pte,
            compiler="",
            label="",
        )
        to_json(manifest)
    with watch.stage("report"):
        document = debug_map(lowered.sources, lowered.emitted)
        render_html(manifest, document, blob_graphs(pte, document, builtin_backends()))
    with contextlib.redirect_stdout(io.StringIO()):
        with watch.stage("inspect"):
            assert run_verb(["inspect", pte]) == 0
        with watch.stage("verify"):
            assert run_verb(["verify", f"--program={path}", f"--pte={pte}"]) == 0


def _timed(watch: Stopwatch, name: str) -> Any:
    function = getattr(lowering, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        with watch.stage(name):
            return function(*args, **kwargs)

    return run
