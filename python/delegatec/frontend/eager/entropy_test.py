# SPDX-License-Identifier: Apache-2.0
"""Weights whose values differ in each build are an error; clocks that measure are not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import ExportRequest, export_model

_MODEL = """
import os, random, time, numpy, torch, delegatec

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seeded", torch.rand(2) * random.random() * numpy.random.rand())
        {statement}

    def forward(self, x):
        return x * self.seeded

def build():
    return delegatec.Model(Scaled(), (torch.ones(2),))
"""


def _export(statement: str, folder: Path) -> None:
    source = folder / "scaled.py"
    source.write_text(_MODEL.format(statement=statement))
    export_model(ExportRequest("scaled:build", (str(source),), program=str(folder / "scaled.pt2")))


@pytest.mark.parametrize(
    "statement",
    [
        'self.register_buffer("other", torch.tensor([*os.urandom(8)]))',
        'self.register_buffer("other", torch.tensor(time.time()))',
        'self.register_buffer("other", torch.tensor(numpy.random.default_rng().random(2)))',
        'self.register_buffer("other", torch.tensor(random.SystemRandom().random()))',
        'torch.seed(); self.register_buffer("other", torch.rand(2))',
        "self.other = time.time_ns()",
    ],
)
def test_unstable_weights(statement: str, tmp_path: Path) -> None:
    with pytest.raises(DelegatecError) as caught:
        _export(statement, tmp_path)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC129" and 'each build has different values of "other"' in problem.message
    assert problem.location is not None and problem.location.line == 8
    assert not (tmp_path / "scaled.pt2").exists()


@pytest.mark.parametrize("statement", ["pass", "started = time.time(); print(time.time() - started)"])
def test_stable_weights(statement: str, tmp_path: Path) -> None:
    _export(statement, tmp_path)
    assert (tmp_path / "scaled.pt2").exists()


def test_signature_has_the_digest_of_the_samples(tmp_path: Path) -> None:
    source, samples, signature = (tmp_path / name for name in ("scaled.py", "scaled.samples", "scaled.json"))
    source.write_text(_MODEL.format(statement="pass"))
    export_model(
        ExportRequest(
            "scaled:build",
            (str(source),),
            program=str(tmp_path / "scaled.pt2"),
            signature=str(signature),
            samples_file=str(samples),
        )
    )
    found = json.loads(signature.read_text())["samples"]
    assert found["sha256"] == hashlib.sha256(samples.read_bytes()).hexdigest()
    assert [call["name"] for call in found["calls"]] == ["example", "seed 1"]
