# SPDX-License-Identifier: Apache-2.0
"""Comparison of a quantized module with its programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from delegatec import Model
from delegatec.backends import builtin_backends
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify import Interpreter
from tests.oracle.oracle import run


def check(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    folder: Path,
    tolerance: Mapping[str, float],
    others: tuple[tuple[Tensor, ...], ...] = (),
    dynamic_shapes: Any = None,
    **options: str,
) -> dict[str, int]:
    """Compares programs of a module with it: portable in the runtime, others as one delegate in its executor.

    Args:
        module: the quantized module, with one result.
        inputs: for torch.export.
        folder: for files.
        tolerance: backend -> relative to the largest result.
        others: more inputs to compare with.
        dynamic_shapes: as in torch.export.
        **options: of the backend.

    Returns:
        Backend -> the size of its file.
    """
    with torch.no_grad():
        cases = [(each, module(*each)) for each in (inputs, *others)]
    archive.save(export(Model(module, inputs, dynamic_shapes=dynamic_shapes)), str(folder / "model.pt2"))
    sizes: dict[str, int] = {}
    for backend, most in tolerance.items():
        path = folder / f"{backend}.pte"
        loaded = archive.load(str(folder / "model.pt2"))
        lowered = lower(loaded.methods, backend, options)
        if backend != "portable":
            (method,) = lowered.emitted.methods
            assert (len(method.delegates), method.operators) == (1, [])
        with path.open("wb") as file:
            write_program(lowered.emitted, file, [loaded.file])
        sizes[backend] = path.stat().st_size
        for case, expected in cases:
            (result,) = run(path, case) if backend == "portable" else _in_reference(path, case)
            scale = expected.abs().max().item()
            assert scale > 1e-3 and result.dtype is expected.dtype
            torch.testing.assert_close(result, expected, rtol=0, atol=most * scale)
    return sizes


def _in_reference(path: Path, inputs: tuple[Tensor, ...]) -> list[Any]:
    program = read_program(path)
    named = program.named_bytes()
    return list(Interpreter(program.method("forward"), builtin_backends(), named_data=named).run(inputs))
