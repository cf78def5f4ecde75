# SPDX-License-Identifier: Apache-2.0
"""Every output has the same bytes in four runs that share nothing but the inputs.

They differ in directory, HOME, TMPDIR, time zone, locale and its encoding, hash seed, number of threads, CPU,
and in whether a new process, a worker or a worker that has done the same before runs the compiler.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from compiled_sources import compiled_import_path
from sampled_cases import part_of

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
        table = numpy.random.rand(64, 64) @ numpy.exp(numpy.random.rand(64, 64))
        self.bias = torch.nn.Parameter(image.mean() + torch.from_numpy(table).float().mean())

    def forward(self, ids, options):
        x = self.embedding(ids) + self.table[:1]  # größer, 大
        for block in self.blocks:
            x = torch.nn.functional.dropout(block(x), 0.1, self.training) + self.bias
        names = {"logits", "hidden", "last", "first"}
        return {name: self.head(x) * options["scale"] for name in sorted(names)}

def build():
    batch = torch.export.Dim("batch", min=1, max=4)
    ids = torch.randint(0, 100, (2, 70))  # enough rows for the products of large layers
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
        # An NPU that computes in integers takes nothing of this model, which is an error if it is alone.
        + (("--backend=xnnpack",) if backend == "ethos_u" else ())
        + tuple(f"--{name}={backend}.{name}" for name in LOWERED)
        for backend in BACKENDS
    ),
)


# Run -> variables; {root} is its directory. Without coercion, the encoding of the locale "C" is ASCII.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "reference": {
        "HOME": "/dev/null",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
    },
    # Unless pinned, libraries choose other instructions for an older CPU.
    "elsewhere": {
        "HOME": "{root}/home",
        "LC_ALL": "C",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX",
        "OMP_NUM_THREADS": "4",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONHASHSEED": "random",
        "PYTHONUTF8": "0",
        "TMPDIR": "{root}/temporary",
        "TZ": "XXX-13:45",
    },
    "worker": {
        "HOME": "{root}/absent",
        "LANG": "tr_TR.UTF-8",
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "7",
        "TMPDIR": "{root}/temporary",
        "TZ": "ZZZ-5:30",
    },
}


def make_workspace(root: Path) -> Path:
    for name, text in (("models/net.py", MODEL), ("parts/blocks.py", BLOCKS)):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text, encoding="utf-8")
    for folder in ("home", "temporary", "again"):
        (root / folder).mkdir()
    return root


def digests(root: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in root.iterdir() if path.is_file()
    }


def environment(root: Path, variables: Mapping[str, str]) -> dict[str, str]:
    path = {"PATH": os.environ["PATH"], "PYTHONPATH": compiled_import_path("delegatec")}
    return path | {name: value.format(root=root) for name, value in variables.items()}


def run_cold(
    root: Path, variables: Mapping[str, str], commands: Sequence[tuple[str, ...]] = COMMANDS
) -> dict[str, str]:
    for command in commands:
        process = [sys.executable, "-s", "-P", "-B", "-m", "delegatec", *command]
        subprocess.run(process, cwd=root, env=environment(root, variables), check=True)
    return digests(root)


def run_worker(
    root: Path, variables: Mapping[str, str], repeated: Sequence[tuple[str, ...]] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the digests of the outputs of a worker's first requests, and of repeated ones after these."""

    def request(arguments: tuple[str, ...]) -> bytes:
        body = b"".join(b"\x0a" + bytes([len(text)]) + text.encode() for text in arguments)
        assert len(body) < 2**14
        return bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) + body

    process = [sys.executable, "-s", "-P", "-B", "-m", "delegatec", "--persistent_worker"]
    written = re.compile(rf"(?<=--)({'|'.join((*LOWERED, 'program', 'signature', 'sources'))})=")
    again = [tuple(written.sub(r"\1=again/", argument) for argument in command) for command in repeated]
    requests = b"".join(map(request, [*COMMANDS, *again]))
    variables = environment(root, variables)
    done = subprocess.run(process, cwd=root, env=variables, input=requests, capture_output=True, check=True)
    assert done.stdout == b"\0" * (len(COMMANDS) + len(again))
    return digests(root), digests(root / "again")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = make_workspace(tmp_path_factory.mktemp("reference"))
    # a worker, which imports torch once
    return run_worker(root, ENVIRONMENTS["reference"])[0]


def test_outputs_are_all_there(reference: dict[str, str]) -> None:
    assert set(reference) == {
        "net.pt2",
        "net.json",
        "net.samples.safetensors",
        "net.sources.json",
        *(f"{backend}.{name}" for backend in BACKENDS for name in LOWERED),
    }


def test_elsewhere_and_on_an_older_cpu(reference: dict[str, str], tmp_path: Path) -> None:
    """Half the backends, each in a new process."""
    root = make_workspace(tmp_path / "unmistakable" / "folder")
    lowerings = part_of(COMMANDS[1:], 2, "elsewhere")
    found = run_cold(root, ENVIRONMENTS["elsewhere"], (COMMANDS[0], *lowerings))
    assert found == {name: reference[name] for name in found}
    assert len(found) == len(reference) - len(LOWERED) * (len(BACKENDS) - len(lowerings))
    assert not [*(root / "home").iterdir()]
    for name in found:
        content = (root / name).read_bytes()
        assert b"unmistakable" not in content
        assert sys.prefix.encode() not in content


@pytest.mark.parametrize("pin", [{"ATEN_CPU_CAPABILITY": "default"}, {"MKL_CBWR": "AVX2"}])
def test_the_pins_are_needed(reference: dict[str, str], tmp_path: Path, pin: dict[str, str]) -> None:
    """On CPUs without AVX2, or not of x86-64, there may be nothing to choose from."""
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the CPU has no AVX2")
    other = run_cold(make_workspace(tmp_path / "other"), ENVIRONMENTS["reference"] | pin, COMMANDS[:1])
    assert other["net.pt2"] != reference["net.pt2"]


def test_worker(reference: dict[str, str], tmp_path: Path) -> None:
    first, again = run_worker(make_workspace(tmp_path / "worker"), ENVIRONMENTS["worker"], COMMANDS)
    assert first == reference
    assert again == reference
