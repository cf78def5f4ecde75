# SPDX-License-Identifier: Apache-2.0
"""Records what this version writes, for later versions to read: `bazel run //tests/compatibility:record`.

Run it for a release, once: `tests/compatibility/VERSION` is not written again after that.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy
import torch
from interface import interface

from delegatec.cli.main import run_verb
from delegatec.frontend import archive
from delegatec.frontend.export import export_with_samples
from delegatec.frontend.model import Model
from delegatec.frontend.samples_file import save_samples
from delegatec.version import VERSION

INTERFACE: Final = "interface.json"
PROGRAMS: Final = ("portable", "mps", "tosa", "vulkan", "xnnpack", "shared", "int8", "state")
"""Names of the recorded programs, `NAME.pte` with `NAME.json`, `NAME.debug.json` and `NAME.json.golden`."""


class Net(torch.nn.Module):
    """Layers that every backend delegates."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.linear = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).relu().flatten(1))


class Counter(torch.nn.Module):
    """State, a dynamic size, control flow, and two results."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, rows: torch.Tensor) -> Any:
        self.total.add_(rows.sum(0))
        scaled = torch.cond(rows.sum() > 0, lambda x: x * 2, lambda x: x - 1, (rows,))
        return {"total": self.total.clone(), "scaled": scaled}


def _models() -> dict[str, Model]:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=6)
    counter = Model(
        Counter(), (torch.rand(4, 3),), dynamic_shapes={"rows": {0: rows}}, constant_methods={"size": 3}
    )
    return {"net": Model(Net(), (torch.rand(1, 2, 4, 4),)), "counter": counter}


def _run(command: str) -> None:
    if run_verb(command.split()):
        raise SystemExit(f"delegatec {command} failed")


def _lower(name: str, program: str, backend: str = "portable", flags: str = "") -> None:
    outputs = f"--pte={name}.pte --manifest={name}.json --debug={name}.debug.json"
    _run(f"lower --label=//:{name} --program={program}.pt2 --backend={backend} {outputs} {flags}")
    # relative to the workspace otherwise
    _run(f"golden --manifest={name}.json --update={Path.cwd()}/{name}.json.golden")


def record(folder: Path) -> None:
    """Writes the files of this version, with the working directory at an empty one."""
    for name, model in _models().items():
        exported = export_with_samples(model)
        archive.save(exported.programs, f"{name}.pt2", model.constant_methods)
        save_samples(exported.samples, f"{name}.samples.safetensors")
    torch.manual_seed(1)
    numpy.save("calibration.npy", torch.rand(8, 1, 2, 4, 4).numpy())
    _run("quantize --program=net.pt2 --calibration=calibration.npy --pt2=int8.pt2")
    for backend in ("portable", "mps", "tosa", "vulkan", "xnnpack"):
        _lower(backend, "net", backend)
    _lower("shared", "net", "xnnpack", "--external-weights")
    _run("weights --program=net.pt2 --ptd=shared.ptd")
    _lower("int8", "int8", "xnnpack")
    _lower("state", "counter")
    folder.mkdir()
    for pattern in ("*.pte", "*.ptd", "*.json", "*.golden", "*.samples.safetensors"):
        for path in sorted(Path().glob(pattern)):
            if not path.name.endswith(".sources.json"):
                shutil.copy(path, folder / path.name)


def main() -> None:
    root = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    folder = root / "tests" / "compatibility" / VERSION
    if folder.exists():
        raise SystemExit(
            f"{folder} exists: a release is recorded once; before it is released, remove it first"
        )
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        record(folder)
    text = json.dumps(interface(root / "docs" / "rules.md"), indent=1, sort_keys=True)
    (folder / INTERFACE).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
