# SPDX-License-Identifier: Apache-2.0
"""Every output has the same bytes for any directory, hash seed and number of threads, and with workers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from delegatec.backends import builtin_backends

BLOCKS = """
import numpy, random, torch

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)
        torch.nn.init.orthogonal_(self.query.weight)
        self.noise = torch.nn.Parameter(torch.from_numpy(numpy.random.rand(width).astype("float32")))
        self.scale = random.random()

    def attend(self, x):
        q, k = self.query(x), self.key(x)
        return torch.nn.functional.scaled_dot_product_attention(q, k, x)

    def forward(self, x):
        return self.norm(x + self.attend(x) * self.noise * self.scale)
"""
MODEL = """
import numpy
import torch
import delegatec
from parts.blocks import Block

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 96)
        self.blocks = torch.nn.ModuleList(Block(96) for _ in range(2))
        self.head = torch.nn.Linear(96, 100, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("table", torch.randn(100, 300) @ torch.randn(300, 96), persistent=False)
        image = torch.rand(1, 1, 20, 20)
        image = torch.nn.functional.conv2d(image, torch.rand(1, 1, 3, 3))
        image = torch.nn.functional.gelu(image).softmax(-1) ** 0.37
        numbers = numpy.random.rand(64, 64) @ numpy.exp(numpy.random.rand(64, 64))
        self.bias = torch.nn.Parameter(image.mean() + torch.from_numpy(numbers).float().mean())

    def forward(self, ids, options):
        x = self.embedding(ids) + self.table[:1]
        for block in self.blocks:
            x = torch.nn.functional.dropout(block(x), 0.1, self.training) + self.bias
        names = {"logits", "hidden", "last", "first"}
        return {name: self.head(x) * options["scale"] for name in sorted(names)}

def build():
    batch = torch.export.Dim("batch", min=1, max=4)
    ids = torch.randint(0, 100, (2, 7))
    inputs = (ids, {"scale": torch.tensor(2.0)})
    return delegatec.Model(Net(), inputs, dynamic_shapes=({0: batch}, {"scale": None}))
"""
BACKENDS = ("portable", *(backend.name for backend in builtin_backends()))
LOWERED = ("pte", "manifest", "report", "debug", "ir", "etrecord")
COMMANDS = (
    ("export", "--label=//m", "--entry=net:build", "--source=models/net.py", "--import-path=.")
    + ("--seed=3", "--program=net.pt2", "--signature=net.json", "--sources=net.sources.json"),
    *(
        ("lower", "--label=//m:p", "--program=net.pt2", f"--backend={backend}")
        + tuple(f"--{name}={backend}.{name}" for name in LOWERED)
        for backend in BACKENDS
    ),
)


def make_workspace(root: Path) -> Path:
    for name, text in (("models/net.py", MODEL), ("parts/blocks.py", BLOCKS)):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    return root


def digests(root: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in root.iterdir() if path.is_file()
    }


def environment(**more: str) -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=":".join(path for path in sys.path if path), **more)


def run_cold(root: Path, commands: Sequence[tuple[str, ...]] = COMMANDS, **variables: str) -> dict[str, str]:
    for command in commands:
        process = [sys.executable, "-s", "-P", "-B", "-m", "delegatec", *command]
        subprocess.run(process, cwd=root, env=environment(**variables), check=True)
    return digests(root)


def run_worker(root: Path, **variables: str) -> dict[str, str]:
    def request(arguments: tuple[str, ...]) -> bytes:
        body = b"".join(b"\x0a" + bytes([len(text)]) + text.encode() for text in arguments)
        assert len(body) < 2**14
        return bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) + body

    process = [sys.executable, "-s", "-P", "-B", "-m", "delegatec", "--persistent_worker"]
    requests = b"".join(map(request, COMMANDS * 2))  # the second round after the first has run
    done = subprocess.run(
        process, cwd=root, env=environment(**variables), input=requests, capture_output=True, check=True
    )
    assert done.stdout == b"\0" * len(COMMANDS) * 2
    return digests(root)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = make_workspace(tmp_path_factory.mktemp("reference"))
    return run_cold(root, PYTHONHASHSEED="0", OMP_NUM_THREADS="1")


def test_outputs_are_all_there(reference: dict[str, str]) -> None:
    assert set(reference) == {
        "net.pt2",
        "net.json",
        "net.sources.json",
        *(f"{backend}.{name}" for backend in BACKENDS for name in LOWERED),
    }


def test_other_directory_hash_seed_and_threads(reference: dict[str, str], tmp_path: Path) -> None:
    root = make_workspace(tmp_path / "unmistakable" / "folder")
    assert run_cold(root, PYTHONHASHSEED="12345", OMP_NUM_THREADS="4") == reference
    for name in reference:
        content = (root / name).read_bytes()
        assert b"unmistakable" not in content
        assert sys.prefix.encode() not in content


def test_other_cpu(reference: dict[str, str], tmp_path: Path) -> None:
    """Unless pinned, libraries choose other instructions for an older CPU."""
    older = {
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX",
    }
    assert run_cold(make_workspace(tmp_path / "older"), **older) == reference


@pytest.mark.parametrize("pin", [{"ATEN_CPU_CAPABILITY": "default"}, {"MKL_CBWR": "AVX2"}])
def test_the_pins_are_needed(reference: dict[str, str], tmp_path: Path, pin: dict[str, str]) -> None:
    """On CPUs without AVX2, or not of x86-64, there may be nothing to choose from."""
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the CPU has no AVX2")
    other = run_cold(make_workspace(tmp_path / "other"), COMMANDS[:1], **pin)
    assert other["net.pt2"] != reference["net.pt2"]


def test_worker(reference: dict[str, str], tmp_path: Path) -> None:
    root = make_workspace(tmp_path / "worker")
    assert run_worker(root, PYTHONHASHSEED="7", OMP_NUM_THREADS="2") == reference
