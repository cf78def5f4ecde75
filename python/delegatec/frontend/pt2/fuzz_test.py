# SPDX-License-Identifier: Apache-2.0
"""Mutated archives end in a diagnostic, or in a program that can be lowered or is rejected with one."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.frontend.pt2.testing import members, mutated_json, write
from delegatec.lowering import lower

SEED = int(os.environ.get("FUZZ_SEED", "1"))
COUNT = int(os.environ.get("FUZZ_COUNT", "250"))


class Net(torch.nn.Module):
    """Weights, state, several results, and control flow."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 4, 3)
        self.linear = torch.nn.Linear(6, 6)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor, *, scale: float) -> dict[str, Any]:
        self.steps.add_(1)
        a, b = self.linear(self.conv(x)).split(2, dim=1)
        c = torch.cond(self.steps.sum() > 2, lambda t: t.relu(), lambda t: t.neg(), (a,))
        return {"c": c.softmax(-1) * scale, "d": [b.transpose(1, 2).reshape(-1, 2).mean(0), self.steps + 0]}


def models(dynamic: bool) -> Model:
    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=8)}, "scale": None}
    return Model(Net(), (torch.ones(3, 2, 8),), {"scale": 0.5}, dynamic_shapes=shapes if dynamic else None)


def mutated(content: dict[str, bytes], whole: bytes, path: Path, rng: random.Random) -> None:
    """Writes one mutation of an archive: of its bytes, or of a member, with valid checksums."""
    if rng.random() < 0.15:
        changed = bytearray(whole)
        for _ in range(rng.choice((1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.3 else changed)
        return
    documents = [name for name in content if name.endswith(".json")]
    program = [name for name in documents if name.startswith("models/")]
    name = rng.choice(program if rng.random() < 0.7 else documents)
    edited = {**content, name: mutated_json(content[name], rng)}
    if rng.random() < 0.05:
        edited.pop(rng.choice(list(edited)))
    write(path, edited)


@pytest.mark.parametrize("dynamic", [False, True])
def test_mutations_end_in_diagnostics(tmp_path: Path, dynamic: bool) -> None:
    good, path = tmp_path / "good.pt2", tmp_path / "bad.pt2"
    archive.save(export(models(dynamic)), str(good), {"size": (1, 2.0, torch.ones(2))})
    content, whole = members(good), good.read_bytes()
    read = lowered = 0
    for index in range(COUNT):
        mutated(content, whole, path, random.Random(f"{SEED} {dynamic} {index}"))
        try:
            model = archive.load(str(path))
            read += 1
            lower(model.methods, constant_methods=model.constant_methods)
            lowered += 1
        except DelegatecError as error:
            assert all(len(problem.message) < 2000 for problem in error.diagnostics)
        except Exception as error:
            raise AssertionError(f"seed {SEED}, mutation {index}, dynamic {dynamic}") from error
    assert COUNT / 20 < read < COUNT * 0.9
    assert lowered
