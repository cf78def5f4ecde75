# SPDX-License-Identifier: Apache-2.0
"""Writes a workspace with many models, each lowered for several backends and tested.

    bazel run //bench:monorepo -- --models=1000 --output=/tmp/monorepo

The models are small, and all rules are loaded from this repository.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BACKENDS: Final = ("portable", "mps", "vulkan", "ethos_u")
_WORKSPACE: Final = """\
workspace(name = "monorepo")

local_repository(
    name = "rules_delegate",
    path = "{rules}",
)

load("@rules_delegate//rules:repositories.bzl", "rules_delegate_repositories")

rules_delegate_repositories()

load("@rules_delegate//rules:setup.bzl", "rules_delegate_setup")

rules_delegate_setup()
"""
_LAYERS: Final = """\
import torch


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(x))
"""
_MODEL: Final = """\
import torch
from layers.block import Block

import delegatec


def build() -> delegatec.Model:
    module = torch.nn.Sequential(*(Block({width}) for _ in range(2)))
    return delegatec.Model(module.eval(), (torch.rand(1, {width}),))
"""
_LOAD: Final = """\
load("@rules_delegate//rules:defs.bzl", "delegate_programs", "exported_program", "program_test")
"""
_TARGETS: Final = """
exported_program(
    name = "{name}",
    srcs = ["{name}.py"],
    entry = "{name}:build",
    deps = ["//layers:block"],
)

delegate_programs(
    name = "{name}",
    backends = [{backends}],
    program = ":{name}",
)
"""
_TEST: Final = """
program_test(
    name = "{name}_{backend}_test",
    program = ":{name}_{backend}",
)
"""


@dataclass(frozen=True)
class Monorepo:
    """The size of a workspace.

    Attributes:
        models: the number of models.
        per_package: the number of models in a package.
        backends: the backends of each model.
    """

    models: int = 1000
    per_package: int = 5
    backends: Sequence[str] = BACKENDS

    @property
    def packages(self) -> int:
        """The number of packages with models."""
        return -(-self.models // self.per_package)

    @property
    def targets(self) -> int:
        """The number of targets that `//models/...` selects: exported programs, programs and tests."""
        return self.models * (1 + 2 * len(self.backends))

    def write(self, folder: Path, rules: Path) -> None:
        """Writes the workspace.

        Args:
            folder: its directory, which must not contain one.
            rules: the root of `rules_delegate`.
        """
        _write(folder / "WORKSPACE", _WORKSPACE.format(rules=rules.resolve()))
        _write(folder / "layers" / "block.py", _LAYERS)
        _write(
            folder / "layers" / "BUILD.bazel",
            'py_library(name = "block", srcs = ["block.py"], visibility = ["//visibility:public"])\n',
        )
        for package in range(self.packages):
            self._write_package(folder / "models" / f"p{package:05d}", package)

    def _write_package(self, folder: Path, package: int) -> None:
        backends = ", ".join(f'"{backend}"' for backend in self.backends)
        build = [_LOAD]
        for model in range(package * self.per_package, min((package + 1) * self.per_package, self.models)):
            name = f"m{model:06d}"
            # The widths differ, so that no two models have the same archive.
            _write(folder / f"{name}.py", _MODEL.format(width=8 + model))
            build.append(_TARGETS.format(name=name, backends=backends))
            build += [_TEST.format(name=name, backend=backend) for backend in self.backends]
        _write(folder / "BUILD.bazel", "".join(build))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a `Monorepo`."""
    default = Monorepo()
    parser.add_argument("--models", type=int, default=default.models, help="number of models")
    parser.add_argument("--per-package", type=int, default=default.per_package, help="models in a package")
    parser.add_argument("--backend", action="append", help=f"default: {', '.join(default.backends)}")


def from_flags(flags: argparse.Namespace) -> Monorepo:
    """Returns the workspace that the flags describe."""
    return Monorepo(flags.models, flags.per_package, tuple(flags.backend or BACKENDS))


def source_root() -> Path:
    """Returns the root of this repository, whether Bazel or a shell runs the program."""
    return Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", Path(__file__).parents[1]))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x") as file:
        file.write(text)


def main() -> None:
    """Writes a workspace as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_flags(parser)
    parser.add_argument("--rules", type=Path, default=source_root(), help="root of rules_delegate")
    parser.add_argument("--output", type=Path, required=True, help="directory of the workspace")
    flags = parser.parse_args()
    monorepo = from_flags(flags)
    monorepo.write(flags.output, flags.rules)
    print(f"{monorepo.packages} packages, {monorepo.targets} targets in {flags.output}")


if __name__ == "__main__":
    main()
