# SPDX-License-Identifier: Apache-2.0
"""Mistakes of the function that builds a model: imports, checkpoints, files, threads and the network."""

from __future__ import annotations

from typing import Final

from mistake import HEAD, Mistake, export, net


def _build(does: str, code: str, *words: str, body: str, head: str = "") -> Mistake:
    """An entry with this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return export(does, code, *words, source=f"{HEAD}{head}\ndef build():\n{lines}")


_RELU: Final = "return delegatec.Model(nn.ReLU(), (torch.ones(1),))"
_CYCLE: Final = {"lib_a.py": "import lib_b\nA = 1\n", "lib_b.py": "import lib_a\nB = lib_a.A\n"}

ENTRIES: Final[tuple[Mistake, ...]] = (
    export(
        "makes a syntax error in a file with Windows line endings",
        "DC102",
        "expected ':'",
        "pkg/net.py:3: def build()",
        source="import torch\r\n\r\ndef build()\r\n    return 1\r\n",
    ),
    export(
        "leaves a merge conflict in the file",
        "DC102",
        "<<<<<<< HEAD",
        source="<<<<<<< HEAD\nx = 1\n=======\n",
    ),
    export("writes a library's name in capitals", "DC103", "did you mean 'torch'?", source="import Torch\n"),
    export(
        "imports in a cycle",
        "DC104",
        "partially initialized module 'lib_a'",
        "lib_b.py:2",
        source="from lib_a import A\n",
        files=_CYCLE,
    ),
    _build(
        "loads a state dict of other shapes with torch's method",
        "DC106",
        "size mismatch for weight",
        "[4, 3]",
        "[3, 3]",
        body="net = nn.Linear(3, 3)\nnet.load_state_dict(nn.Linear(3, 4).state_dict())",
    ),
    _build(
        "loads a state dict without its prefix",
        "DC106",
        'Missing key(s) in state_dict: "0.weight", "0.bias"',
        'Unexpected key(s) in state_dict: "weight", "bias"',
        body="net = nn.Sequential(nn.Linear(3, 3))\nnet.load_state_dict(nn.Linear(3, 3).state_dict())",
    ),
    _build(
        "starts a program that the build does not have",
        "DC106",
        "a build has no such program",
        body="import subprocess\nsubprocess.run(['nvidia-smi'], check=True)",
    ),
    _build("reads the environment", "DC106", "KeyError: 'WEIGHTS'", body="import os\nos.environ['WEIGHTS']"),
    _build("loads from the home directory", "DC115", '"~/w.pt"', body="return torch.load('~/w.pt')"),
    _build(
        "loads by an absolute path",
        "DC115",
        'undeclared data file "/data/w.safetensors"',
        body="delegatec.load_checkpoint(nn.Linear(3, 3), '/data/w.safetensors')",
    ),
    _build(
        "passes the path to load_checkpoint first",
        "DC415",
        "module of delegatec.load_checkpoint",
        body="delegatec.load_checkpoint('w.safetensors', nn.Linear(3, 3))",
    ),
    _build(
        "raises an exception in a thread",
        "DC106",
        "a thread of build() raises: KeyError: 'weight'",
        "pkg/net.py:6 in read: return {}['weight']",
        head="import threading\ndef read():\n    return {}['weight']\n",
        body=f"thread = threading.Thread(target=read)\nthread.start()\nthread.join()\n{_RELU}",
    ),
    _build(
        "downloads the weights",
        "DC106",
        "a build has no network",
        body="import urllib.request\nurllib.request.urlopen('http://localhost:9/weights.pt')",
    ),
    _build(
        "asks the hub for a model",
        "DC106",
        "couldn't connect",
        "a build has no network",
        head="def hub(name):\n"
        "    try:\n        raise TimeoutError\n"
        "    except TimeoutError as error:\n"
        '        raise OSError(f"We couldn\'t connect to the hub to load {name}.") from error\n',
        body="hub('bert-base-uncased')",
    ),
    _build(
        "replaces the standard error stream by a buffer",
        "DC106",
        "ZeroDivisionError",
        body="import io, sys\nsys.stderr = io.StringIO()\n1 // 0",
    ),
    _build("returns several models in a list", "DC107", "of type list", body=f"return [{_RELU[7:]}]"),
    _build("yields the model", "DC107", "of type generator", body=_RELU.replace("return", "yield")),
    _build("calls itself for ever", "DC106", "RecursionError", "build()", body="return build()"),
    export(
        "bounds a size by a fraction",
        "DC113",
        "dynamic_shapes[0][0] has the bound 4.5, of type float",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim('b', max=4.5)},)",
    ),
    export(
        "returns NaN",
        "DC119",
        "forward() returns the scalar nan",
        "torch.tensor",
        forward="return x, float('nan')",
    ),
    export(
        "misspells forward",
        "DC110",
        "forward() of Net, which does not define it",
        source=net("return x").replace("def forward", "def foward"),
    ),
    export(
        "calls a list of modules",
        "DC110",
        "forward() of ModuleList, which does not define it",
        "pkg/net.py:11 in forward: return self.l(x)",
        init="self.l = nn.ModuleList([nn.ReLU()])",
        forward="return self.l(x)",
    ),
)

TABLE: Final = {"In the entry": ENTRIES}
