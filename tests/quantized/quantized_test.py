# SPDX-License-Identifier: Apache-2.0
"""A Llama with quantized weights, from torch.export to one delegate in a file: its size, and its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from torch import nn

from delegatec import Model
from delegatec.backends import builtin_backends
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.verify import verify_program
from tests.quantized.llama import Llama, example
from tests.quantized.quantizer import DynamicInt4Linear, Int4Linear, Int8Linear, quantize

Layer = Callable[[nn.Linear], nn.Module]

LAYERS: Final[dict[str, Layer]] = {"int8": Int8Linear, "int4": Int4Linear, "8da4w": DynamicInt4Linear}
# Of values up to 1.5. Found: 5e-7; 2e-3 in float16, 7e-4 with weights in it; and where activations are
# quantized, 1e-2, as a quantized value can be the next one.
FLOAT32, FLOAT16, LEVELS = 5e-6, 1e-2, 5e-2

# Weights, options, bytes for each parameter, tolerance. Scales of groups of 32 are an eighth of a byte in
# float32, and half of that in float16; embeddings of positions and the like the rest.
CASES: Final[list[tuple[str, dict[str, str], float, float]]] = [
    ("float", {}, 4, FLOAT32),
    ("float", {"precision": "fp16"}, 2, FLOAT16),
    ("int8", {}, 1, FLOAT32),
    ("int8", {"precision": "fp16"}, 1, FLOAT16),
    ("int4", {}, 1 + 4 / 32, FLOAT32),
    ("int4", {"int4": "packed"}, 0.5 + 2 / 32, FLOAT16),
    ("int4", {"int4": "packed", "precision": "fp16"}, 0.5 + 2 / 32, FLOAT16),
    ("8da4w", {"int4": "packed"}, 0.5 + 2 / 32, LEVELS),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Weights -> the exported model."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("float", *LAYERS):
        model = Llama().eval()
        if name in LAYERS:
            quantize(model, LAYERS[name])
        archive.save(export(Model(model, example())), str(folder / f"{name}.pt2"))
    return {name: folder / f"{name}.pt2" for name in ("float", *LAYERS)}


PARAMETERS: Final = sum(p.numel() for p in Llama().parameters() if p.dim() == 2)


@pytest.mark.parametrize(("weights", "options", "size", "tolerance"), CASES)
def test_one_delegate(
    models: dict[str, Path],
    weights: str,
    options: dict[str, str],
    size: float,
    tolerance: float,
    tmp_path: Path,
) -> None:
    loaded = archive.load(str(models[weights]))
    lowered = lower(loaded.methods, "mps", options, require_full_delegation=True)
    (delegate,) = lowered.reports["forward"].delegates
    assert size <= delegate.module.blob_size / PARAMETERS < size + 0.1
    with (tmp_path / "model.pte").open("wb") as file:
        write_program(lowered.emitted, file, [loaded.file])
    _verify(tmp_path / "model.pte", models[weights], tolerance)


@pytest.mark.parametrize(("weights", "size"), [("int8", 1), ("int4", 0.5 + 4 / 32), ("8da4w", 0.5 + 4 / 32)])
def test_portable(models: dict[str, Path], weights: str, size: float, tmp_path: Path) -> None:
    loaded = archive.load(str(models[weights]))
    path = tmp_path / "model.pte"
    with path.open("wb") as file:
        write_program(lower(loaded.methods).emitted, file, [loaded.file])
    assert size <= path.stat().st_size / PARAMETERS < size + 0.1
    _verify(path, models[weights], FLOAT32 if weights != "8da4w" else LEVELS)


def _verify(program: Path, model: Path, tolerance: float) -> None:
    exported = archive.load(str(model)).methods
    result = verify_program(program, exported, builtin_backends(), atol=tolerance, rtol=0, seeds=1)
    assert result.passed, result.table()
