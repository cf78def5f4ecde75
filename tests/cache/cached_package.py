# SPDX-License-Identifier: Apache-2.0
"""A package with a model and three programs, and which of their actions a build ran."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from nested_bazel import NestedBazel
from safetensors.torch import save_file

BUILD = """
load("//rules:defs.bzl", "exported_program", "mps_program", "portable_program", "vulkan_program")

exported_program(
    name = "net",
    srcs = ["net.py"],
    data = ["net.safetensors"],
    entry = "net:build",
)

portable_program(
    name = "net_portable",
    program = ":net",
)

mps_program(
    name = "net_mps",
    program = ":net",
)

vulkan_program(
    name = "net_vulkan",
    program = ":net",
)
"""
NET = """\
import torch
import delegatec

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x * 2, (x,))

def build():
    net = Net()
    delegatec.load_checkpoint(net, "net.safetensors")
    return delegatec.Model(net, (torch.ones(1, 4),))
"""
PROGRAMS = ("net_mps", "net_portable", "net_vulkan")
OURS = ("TorchExport", "DelegateLower", "DelegateLocate")

EXPORT = {"TorchExport net"}
LOWER = {f"DelegateLower {name}" for name in PROGRAMS}
LOCATE = {f"DelegateLocate {name}" for name in PROGRAMS}
ALL = EXPORT | LOWER | LOCATE


def write_weights(path: Path, first: float) -> None:
    """Writes the checkpoint; `first` is one of its weights."""
    weight = torch.arange(16.0).reshape(4, 4) / 16
    weight[0, 0] = first
    save_file({"linear.weight": weight, "linear.bias": torch.zeros(4)}, str(path))


def write_package(workspace: Path) -> Path:
    """Writes a package with a model and three programs."""
    package = workspace / "cached"
    package.mkdir()
    (package / "BUILD.bazel").write_text(BUILD)
    (package / "net.py").write_text(NET)
    write_weights(package / "net.safetensors", 0)
    return package


@dataclass(frozen=True)
class Ran:
    """An action that ran, or whose outputs were found in a cache."""

    action: str
    found: bool


def built(bazel: NestedBazel, *flags: str, programs: Sequence[str] = PROGRAMS) -> list[Ran]:
    """Builds the programs and their reasons; returns the compiler's actions that were not up to date."""
    log = bazel.output_user_root.parent / "execution.json"
    log.unlink(missing_ok=True)
    targets = [f"//cached:{name}" for name in programs]
    bazel.run("build", "--output_groups=+reasons", f"--execution_log_json_file={log}", *flags, *targets)
    return list(_parsed(log.read_text()))


def _parsed(text: str) -> Iterator[Ran]:
    decoder = json.JSONDecoder()
    while text:
        spawn, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        if spawn["mnemonic"] in OURS:
            name = Path(spawn["listedOutputs"][-1]).name.partition(".")[0]
            yield Ran(
                f"{spawn['mnemonic']} {name}", bool(spawn.get("remoteCacheHit") or spawn.get("cacheHit"))
            )
