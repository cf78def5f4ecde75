# SPDX-License-Identifier: Apache-2.0
"""Programs with results of the ExecuTorch runtime's MLX backend: the oracle of the reference executor.

To record them, with a runner (`//runtime`) that is linked with the MLX backend:

    bazel run //tests/oracle:mlx_recorded -- PATH_OF_THE_RUNNER

Without names of cases all are recorded; with names, these. Those with a cache of the runtime need a runner
that installs one for each method that it loads, as in docs/mlx.md: two layers of two heads of four elements.
The data was recorded with ExecuTorch's sources of August 2026, with the format of 1.5.1, on MLX 0.31.2 for
CPUs, Linux x86-64.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from executorch_runner.runtime import RunnerRuntime
from tests.oracle import mlx_nodes, mlx_programs
from tests.oracle.blob_program import content_name
from tests.oracle.mlx_case import Case, Results

CASES: Final = {case.name: case for case in (*mlx_nodes.CASES, *mlx_programs.CASES)}
_DATA: Final = "testdata/mlx_outputs.safetensors"


class Recorded(NamedTuple):
    """What the runtime computed.

    Attributes:
        program: the bytes of the `.pte` that it ran.
        calls: for each call in a row the inputs, and the outputs: none if the runtime refused the call.
    """

    program: bytes
    calls: Sequence[tuple[list[Tensor], list[Tensor] | None]]


def recorded() -> dict[str, Recorded]:
    """Returns name of the case -> its record."""
    path = Path(__file__).parent / _DATA
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        index: Mapping[str, Any] = json.loads(file.metadata()["index"])

    def named(names: list[str] | None) -> Any:
        return None if names is None else [tensors[name] for name in names]

    return {
        name: Recorded(
            zlib.decompress(tensors[each["program"]].numpy().tobytes()),
            [(named(inputs), named(outputs)) for inputs, outputs in each["calls"]],
        )
        for name, each in index.items()
    }


def results_in(runtime: RunnerRuntime, case: Case, program: bytes) -> Results:
    """Runs the calls of a case in a runtime; None for one that it refuses."""
    found: Results = []
    with tempfile.NamedTemporaryFile(suffix=".pte") as file:
        file.write(program)
        file.flush()
        loaded = runtime.load(file.name, None, False)
        for inputs in case.calls:
            try:
                found.append(list(loaded.run("forward", [each.clone() for each in inputs])))
            except RuntimeError:
                found.append(None)
    return found


def _record(runner: str, names: Sequence[str]) -> None:
    runtime = RunnerRuntime(runner)
    assert "MLXBackend" in runtime.backends, f"{runner} has no MLX backend"
    kept = {name: each for name, each in (recorded() if names else {}).items() if name in CASES}
    for name in names or CASES:
        case = CASES[name]
        program = case.program()
        outputs = results_in(runtime, case, program)
        calls = [(list(each), found) for each, found in zip(case.calls, outputs, strict=True)]
        kept[name] = Recorded(program, calls)
    tensors: dict[str, Tensor] = {}

    def stored(values: Sequence[Tensor] | None) -> list[str] | None:
        if values is None:
            return None
        named = {content_name(each): each.contiguous().clone() for each in values}
        tensors.update(named)
        return [content_name(each) for each in values]

    index = {}
    for name in CASES.keys() & kept.keys():
        packed = torch.frombuffer(bytearray(zlib.compress(kept[name].program, 9)), dtype=torch.uint8)
        (program_name,) = stored([packed]) or [""]
        calls_of = [[stored(inputs), stored(outputs)] for inputs, outputs in kept[name].calls]
        index[name] = {"program": program_name, "calls": calls_of}
    path = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "tests" / "oracle" / _DATA
    save_file(dict(sorted(tensors.items())), path, {"index": json.dumps(index, sort_keys=True)})


if __name__ == "__main__":
    _record(sys.argv[1], sys.argv[2:])
