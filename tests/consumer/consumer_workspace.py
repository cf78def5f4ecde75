# SPDX-License-Identifier: Apache-2.0
"""A copy of the workspace in `workspace/`, with this repository's path, private wheels and their locks."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nested_bazel import WITH_WORKSPACE, Generation, NestedBazel, nested_bazel, source_root
from private_wheel import write_wheel

# A layer for all models of the consumer's, in a wheel.
_LAYER = """
import torch


class {name}(torch.nn.Module):
    def __init__(self, operand: float) -> None:
        super().__init__()
        self.operand = operand

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value {operator} self.operand
"""


# The same as the requirements lock. The package for Windows is not on the index.
_UV_LOCK = """
version = 1
requires-python = ">=3.11"

[[package]]
name = "team"
version = "1.0"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "team-of-windows", marker = "sys_platform == 'win32'" }},
    {{ name = "torch" }},
]

[package.optional-dependencies]
layers = [{{ name = "team-layers" }}]

[[package]]
name = "team-layers"
version = "1.0"
source = {{ path = "team_layers-1.0-py3-none-any.whl" }}
wheels = [{{ filename = "team_layers-1.0-py3-none-any.whl", hash = "{hash}" }}]

[[package]]
name = "team-of-windows"
version = "1.0"
source = {{ registry = "https://pypi.org/simple" }}
wheels = [{{ url = "https://example.org/team_of_windows-1.0-py3-none-any.whl", hash = "sha256:{zeros}" }}]

[[package]]
name = "torch"
version = "2.13.0"
source = {{ registry = "https://pypi.org/simple" }}
wheels = [{{ url = "https://example.org/torch-2.13.0-cp311-linux_x86_64.whl", hash = "sha256:{zeros}" }}]
"""


def _write_wheels(folder: Path) -> None:
    """Builds a private wheel and its locks, and a lock that does not fit the compiler's wheels."""
    modules = {
        "team_layers/__init__.py": "",
        "team_layers/scale.py": _LAYER.format(name="Scale", operator="*"),
        "team_layers-1.0.dist-info/licenses/LICENSE": "All rights reserved.\n",
        "team_layers-1.0.dist-info/NOTICE.txt": "Of the team.\n",
    }
    private = write_wheel(folder, "team_layers", "1.0", modules, requires=["torch>=2.13", "numpy"])
    (folder / "team.lock.txt").write_text(f"--no-index\n{private}\ntorch==2.13.0 --hash=sha256:{'0' * 64}\n")
    (folder / "uv.lock").write_text(_UV_LOCK.format(hash=private.rpartition("=")[2], zeros="0" * 64))
    unfit = [f"{name} --hash=sha256:{'0' * 64}" for name in ("numpy==1.26.4", "nvidia-cublas==13.1.0")]
    (folder / "unfit.lock.txt").write_text("\n".join([private, *unfit]) + "\n")


def _unpack_wheel(folder: Path) -> None:
    """Builds another private wheel, and unpacks it as rules_python does."""
    write_wheel(folder, "team_shifts", "1.0", {"team_shifts.py": _LAYER.format(name="Shift", operator="+")})
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site-packages")
    wheel.unlink()


@contextmanager
def consumer_bazel(folder: Path, generation: Generation = WITH_WORKSPACE) -> Iterator[NestedBazel]:
    """Copies the workspace into a directory, for a Bazel whose server ends with the block."""
    root = source_root()
    workspace = folder / "workspace"
    shutil.copytree(root / "tests" / "consumer" / "workspace", workspace)
    for name in ("WORKSPACE", "MODULE.bazel"):
        declaration = workspace / name
        declaration.write_text(declaration.read_text().replace("%{rules_delegate}", str(root)))
    _write_wheels(workspace / "wheels")
    _unpack_wheel(workspace / "pip")
    with nested_bazel(workspace, folder / "output", generation) as bazel:
        yield bazel
