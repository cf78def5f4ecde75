# SPDX-License-Identifier: Apache-2.0
"""A client of the server: a Bazel with a workspace and an output base, and the actions of its builds."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nested_bazel import NestedBazel, source_root

_SUMMARY: Final = re.compile(r"(?m)^INFO: \d+ process(?:es)?: (.*)\.$")
_KIND: Final = re.compile(r"(\d+) ([\w -]+)")
_ROWS: Final = """\
load("@rules_delegate//rules:defs.bzl", "exported_program", "mps_program")

exported_program(
    name = "net",
    srcs = ["net.py"],
    entry = "net:build",
)

[
    mps_program(
        name = "net_%d" % number,
        minimum_nodes = number,
        program = ":net",
    )
    for number in range(1, 6)
]
"""
_NET: Final = """\
import torch
import delegatec

def build() -> delegatec.Model:
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return delegatec.Model(module.eval(), (torch.rand(1, 8),))
"""


@dataclass(frozen=True)
class Built:
    """One command of Bazel.

    Attributes:
        returncode: its status.
        processes: how it ran the actions -> their number, without those that it performs itself.
        seconds: duration of the command.
        phases: event of its profile -> the sum of their durations in seconds.
        log: its output.
    """

    returncode: int
    processes: dict[str, int]
    seconds: float
    phases: dict[str, float]
    log: str


def processes(log: str) -> dict[str, int]:
    """Returns how Bazel ran the actions of a build, by its log."""
    summary = _SUMMARY.search(log)
    found = {kind: int(number) for number, kind in _KIND.findall(summary[1])} if summary else {}
    found.pop("internal", None)
    return found


def durations(profile: Path) -> dict[str, float]:
    """Returns the sums of the events of a profile of Bazel in seconds: name -> sum."""
    if not profile.exists():
        return {}
    sums: Counter[str] = Counter()
    for event in json.loads(gzip.decompress(profile.read_bytes()))["traceEvents"]:
        if event.get("ph") == "X":
            sums[event["name"]] += event["dur"] / 1e6
    return dict(sums)


def attempt(bazel: NestedBazel, targets: Sequence[str], *flags: str) -> Built:
    """Builds targets, which may fail."""
    profile = bazel.workspace.with_name("profile.gz")
    profile.unlink(missing_ok=True)
    start = time.monotonic()
    done = bazel.attempt("build", f"--profile={profile}", *flags, "--", *targets)
    seconds = time.monotonic() - start
    phases = durations(profile) if done.returncode == 0 else {}
    return Built(done.returncode, processes(done.stderr), seconds, phases, done.stderr)


def build(bazel: NestedBazel, targets: Sequence[str], *flags: str) -> Built:
    """Builds targets.

    Raises:
        AssertionError: the build fails; with its log.
    """
    built = attempt(bazel, targets, *flags)
    assert built.returncode == 0, built.log
    return built


def consumer(folder: Path) -> Path:
    """Writes a copy of the consumer's workspace, with the package `many`: one model, `net_1` to `net_5`."""
    workspace = folder / "workspace"
    shutil.copytree(source_root() / "tests" / "consumer" / "workspace", workspace)
    for name in ("WORKSPACE", "MODULE.bazel"):
        declaration = workspace / name
        declaration.write_text(declaration.read_text().replace("%{rules_delegate}", str(source_root())))
    (workspace / "many").mkdir()
    (workspace / "many" / "BUILD.bazel").write_text(_ROWS)
    (workspace / "many" / "net.py").write_text(_NET)
    return workspace
