# SPDX-License-Identifier: Apache-2.0
"""A user's workspace in a temporary directory, and the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from compiled_sources import compiled_import_path
from safetensors.torch import save_file

from delegatec.cli.main import run_verb

MODELS = Path(__file__).parent / "models"
DATA = ("pkg/checkpoint.safetensors", "pkg/damaged.pt", "pkg/missing.pt")


@dataclass(frozen=True)
class Result:
    """The result of a command: its exit code and output."""

    code: int
    text: str


@dataclass
class Workspace:
    """A workspace with the bad models in `pkg`; its root is the working directory."""

    root: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> Result:
        """Runs the command line in this process, as if in a new one."""
        path, modules = list(sys.path), set(sys.modules)
        self.capture.readouterr()
        try:
            code = run_verb(arguments)
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if name.startswith("pkg."):
                    del sys.modules[name]
        out, err = self.capture.readouterr()
        return Result(code, out + err)

    def export(self, model: str, *more: str) -> Result:
        """Exports a model of the workspace to `<model>.pt2`."""
        data = [f"--data={path}" for path in DATA]
        return self.run(
            "export",
            f"--label=//pkg:{model}",
            f"--entry={model}:build",
            f"--source=pkg/{model}.py",
            "--import-path=.",
            f"--program={model}.pt2",
            f"--signature={model}.json",
            *data,
            *more,
        )

    def lower(self, model: str, *more: str) -> Result:
        """Lowers `<model>.pt2`, with every output."""
        outputs = ("pte", "manifest", "report", "debug", "ir")
        return self.run(
            "lower",
            f"--label=//pkg:{model}_lowered",
            f"--program={model}.pt2",
            *(f"--{name}={model}.{name}" for name in outputs),
            *more,
        )

    def files(self) -> set[str]:
        """Names of the files in the workspace's root."""
        return {path.name for path in self.root.iterdir() if path.is_file()}


def process_of(
    *arguments: str, command: Sequence[str] = ("-m", "delegatec"), stdout: int | None = None
) -> subprocess.Popen[str]:
    """Starts the command line in a separate process."""
    environment = dict(os.environ, PYTHONPATH=compiled_import_path("delegatec"), PYTHONHASHSEED="0")
    line = [sys.executable, "-s", "-P", "-B", *command, *arguments]
    return subprocess.Popen(
        line, env=environment, stdout=stdout, stderr=stdout and subprocess.STDOUT, text=True
    )


def run_process(*arguments: str, command: Sequence[str] = ("-m", "delegatec")) -> Result:
    """Runs the command line in a separate process."""
    with process_of(*arguments, command=command, stdout=subprocess.PIPE) as process:
        text, _ = process.communicate()
    return Result(process.returncode, text)


def make_workspace(root: Path) -> None:
    """Copies the invalid models and their data to a directory."""
    shutil.copytree(MODELS, root / "pkg", ignore=shutil.ignore_patterns("__pycache__"))
    # With the suffix .py, tools for Python would fail on it.
    (root / "pkg" / "syntax_error.py.txt").rename(root / "pkg" / "syntax_error.py")
    tensors = {
        "0.weight": torch.zeros(4, 4),
        "0.bias": torch.zeros(3, dtype=torch.float16),
        "2.weight": torch.zeros(2, 3),
        "extra": torch.zeros(1),
    }
    save_file(tensors, str(root / "pkg" / "checkpoint.safetensors"))
    (root / "pkg" / "damaged.pt").write_text("hello")
