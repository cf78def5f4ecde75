# SPDX-License-Identifier: Apache-2.0
"""Profiles next to the peer's Inspector, which reads the same ETDump of a real run and our ETRecord."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
from executorch.devtools.inspector import Event, Inspector, TimeScale
from safetensors.torch import save_file

from delegatec.backends import builtin_backends
from delegatec.cli.main import run_verb
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.profile.attribution import Profile, profile_of
from delegatec.profile.etdump import read_etdump
from delegatec.program.reader import read_program
from executorch_runner import RUNTIME

_RUNS = 8


class Block(torch.nn.Module):
    """[2, 16] to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 64)
        self.second = torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(torch.nn.functional.gelu(self.first(x)))
        return torch.softmax(y, -1)


class Network(torch.nn.Module):
    """Blocks, and between them what only kernels compute."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.after(torch.topk(self.before(x), 16).values)
        return y


def _profiled(folder: Path, *flags: str) -> tuple[Profile, list[Event]]:
    """Returns our profile of a run, and the events of the peer's."""
    torch.manual_seed(0)
    paths = {suffix: f"{folder}/net.{suffix}" for suffix in ("pt2", "pte", "json", "etrecord", "etdump")}
    archive.save(export(Model(Network().eval(), (torch.rand(2, 16),))), paths["pt2"])
    outputs = [f"--pte={paths['pte']}", f"--debug={paths['json']}", f"--etrecord={paths['etrecord']}"]
    assert run_verb(["lower", f"--program={paths['pt2']}", *outputs, *flags]) == 0
    save_file({"0": torch.rand(2, 16)}, f"{folder}/in.safetensors")
    words = [f"--program={paths['pte']}", f"--runs={_RUNS}", "--single-thread", f"--etdump={paths['etdump']}"]
    RUNTIME.run([*words, "forward", f"{folder}/in.safetensors", f"{folder}/out.safetensors"])
    program, debug = read_program(paths["pte"]), json.loads(Path(paths["json"]).read_text())
    (method,) = program.methods
    runs = [read_etdump(paths["etdump"])]
    profile = profile_of(runs, method, debug["methods"]["forward"], builtin_backends())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inspector = Inspector(
            etdump_path=paths["etdump"],
            etrecord=paths["etrecord"],
            source_time_scale=TimeScale.NS,
            target_time_scale=TimeScale.NS,
        )
    (block,) = (block for block in inspector.event_blocks if block.name == "Execute")
    return profile, list(block.events)


def _warm(event: Event) -> Any:
    assert event.perf_data is not None and len(event.perf_data.raw) == _RUNS
    return median(event.perf_data.raw[1:])


@pytest.mark.parametrize("flags", [(), ("--backend=xnnpack",)])
def test_times_are_those_of_the_inspector(tmp_path: Path, flags: tuple[str, ...]) -> None:
    profile, events = _profiled(tmp_path, *flags)
    (whole,) = (event for event in events if event.name == "Method::execute")
    assert profile.nanoseconds == _warm(whole) > 0
    named = {(event._instruction_id, event.name): event for event in events}
    calls = {"OPERATOR_CALL": False, "DELEGATE_CALL": False}
    for cost in profile.costs:
        if cost.operation:
            assert cost.nanoseconds == _warm(named[cost.instruction, cost.operation])
            continue
        found = [name for name in calls if (cost.instruction, name) in named]
        calls |= dict.fromkeys(found, True)
        whole_call = _warm(named[cost.instruction, found[0]])
        if found == ["OPERATOR_CALL"]:
            assert cost.nanoseconds == whole_call
        else:
            assert cost.nanoseconds <= whole_call
    assert calls == {"OPERATOR_CALL": True, "DELEGATE_CALL": bool(flags)}
    operations = [event for event in events if event.is_delegated_op]
    assert len(operations) == sum(bool(cost.operation) for cost in profile.costs)


def test_origins_are_those_of_the_inspector(tmp_path: Path) -> None:
    """Of kernels; names of XNNPACK's kernels are not in the maps of an ETRecord."""
    profile, events = _profiled(tmp_path)
    modules = {}
    for event in events:
        if event.name == "OPERATOR_CALL" and event.module_hierarchy:
            paths = {list(stack.values())[-1][0] for stack in event.module_hierarchy.values()}
            modules[event._instruction_id] = paths
    assert len(modules) >= 6
    assert {path for paths in modules.values() for path in paths} >= {"before.first", "after.second", ""}
    for cost in profile.costs:
        if cost.instruction in modules:
            assert {origin.module for origin in cost.origins} == modules[cost.instruction]
