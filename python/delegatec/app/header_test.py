# SPDX-License-Identifier: Apache-2.0
"""`delegatec header`: the header of programs, compared with recorded ones, and messages for mistakes.

`DELEGATEC_RECORD=1 pytest python/delegatec/app` records the headers.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final

import pytest

from delegatec.cli.main import run_verb

TESTDATA: Final = Path(__file__).parent / "testdata"

_MODEL: Final = """
import torch, delegatec

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, new, scale, mask=None):
        y = self.conv(new).relu()
        self.total.add_(y.sum((0, 2, 3)))
        return {"class": y * scale, "sizes": (new.shape[0], self.total * 2)}

    def take(self):
        return self.total + 1

def build():
    image = torch.ones(2, 3, 8, 8).to(memory_format=torch.channels_last)
    batch = torch.export.Dim("batch", min=1, max=5)
    return delegatec.Model(
        Net(), (image, 0.5), dynamic_shapes={"new": {0: batch}, "scale": None},
        methods={"take": delegatec.Method("take", ())},
    )

class Plain(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)

class Names(torch.nn.Module):
    def forward(self, values, call):
        return values + call

    def get_x(self, x):
        return x + 1

    def getX(self, x):
        return x + 2

def names():
    x = torch.ones(2)
    methods = {name: delegatec.Method(name, (x,)) for name in ("get_x", "getX")}
    return delegatec.Model(Names(), (x, x), methods=methods)

def plain():
    return delegatec.Model(Plain(), (torch.ones(2, 3),))
"""


def _program(folder: Path, entry: str, backend: str, *flags: str) -> list[str]:
    """Exports and lowers a model, and returns the flags that name the result."""
    (folder / "net.py").write_text(_MODEL)
    signature = f"--signature={folder / 'net.signature.json'}"
    export = [
        "export",
        signature,
        f"--entry=net:{entry}",
        f"--source={folder / 'net.py'}",
        f"--import-path={folder}",
    ]
    assert run_verb([*export, f"--program={folder / 'net.pt2'}"]) == 0
    outputs = [f"--pte={folder / 'net.pte'}", f"--manifest={folder / 'net.json'}"]
    lower = ["lower", f"--program={folder / 'net.pt2'}", "--label=//app:net", *outputs, *flags]
    assert run_verb([*lower, *([f"--backend={backend}"] if backend else [])]) == 0
    return [*outputs, signature]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags of a program that calls one kernel."""
    return _program(tmp_path_factory.mktemp("plain"), "plain", "")


@pytest.mark.parametrize(
    ("name", "entry", "backend", "flags"),
    [
        ("net_xnnpack.h", "build", "xnnpack", ["--link=kernels", "--runfile=w/app/net.pte"]),
        ("net_embedded.h", "plain", "xnnpack", ["--symbol=delegatec_net", "--namespace=app::models"]),
    ],
)
def test_headers(tmp_path: Path, name: str, entry: str, backend: str, flags: list[str]) -> None:
    sizes = {"forward": {"method": 100, "planned": [1], "temporary": 20}}
    (tmp_path / "memory.json").write_text(json.dumps(sizes if entry == "plain" else {}))
    command = ["header", *_program(tmp_path, entry, backend), f"--header={tmp_path / name}"]
    assert run_verb([*command, f"--memory={tmp_path / 'memory.json'}", "--link=XnnpackBackend", *flags]) == 0
    if "DELEGATEC_RECORD" in os.environ:
        (TESTDATA / name).write_text((tmp_path / name).read_text())
    assert (tmp_path / name).read_text() == (TESTDATA / name).read_text()


@pytest.mark.parametrize(
    ("flags", "problems"),
    [
        (
            [],
            ["DC518", "//app:net calls kernel aten::_softmax.out outside of delegates", "set kernels = True"],
        ),
        (["--link=kernels", "--link=XnnpackBackend", "--exact=kernels"], []),
        (
            ["--link=kernels", "--link=quantized_kernels", "--exact=quantized_kernels"],
            ["DC423", "`quantized_kernels` is linked, but //app:net calls nothing of it"],
        ),
        (
            ["--link=kernels", "--link=XnnpackBackend", "--exact=XnnpackBackend"],
            ["DC423", 'remove "XnnpackBackend" from `backends`'],
        ),
    ],
)
def test_links(
    tmp_path: Path,
    plain: list[str],
    flags: list[str],
    problems: list[str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = run_verb(["header", *plain, f"--header={tmp_path / 'net.h'}", *flags])
    printed = capfd.readouterr().err
    assert (code == 0) == (not problems) == (tmp_path / "net.h").exists()
    assert [each for each in problems if each not in printed] == []


def test_a_backend_that_is_not_linked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["header", *_program(tmp_path, "plain", "mps"), f"--header={tmp_path / 'net.h'}"]
    assert run_verb([*command, "--link=XnnpackBackend", "--link=kernels"]) == 1
    printed = capfd.readouterr().err
    assert "DC518: //app:net has delegates of MPSBackend, which is not linked" in printed
    assert "expected: delegates of XnnpackBackend\n" in printed


def test_outputs_of_the_caller(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outputs = _program(tmp_path, "plain", "", "--no-plan-outputs")
    assert run_verb(["header", *outputs, f"--header={tmp_path / 'net.h'}", "--link=kernels"]) == 1
    assert (
        "DC519: a function of C++ for method 'forward': output 0 has no planned memory"
        in capfd.readouterr().err
    )


def test_embedded_files(tmp_path: Path, plain: list[str]) -> None:
    """The source changes with the program, since a build does not know what `.incbin` reads."""
    outputs = [
        f"--header={tmp_path / 'net.h'}",
        f"--assembly={tmp_path / 'net.S'}",
        "--link=kernels",
        "--link=XnnpackBackend",
    ]
    flags = [*outputs, "--symbol=delegatec_net", "--included-pte=bin/net.pte"]
    sources = []
    for program in (plain, _program(tmp_path, "plain", "xnnpack")):
        assert run_verb(["header", *program, *flags]) == 0
        sources.append((tmp_path / "net.S").read_text())
        assert hashlib.sha256(Path(program[0].removeprefix("--pte=")).read_bytes()).hexdigest() in sources[-1]
        assert 'SYMBOL(delegatec_net_pte):\n.incbin "bin/net.pte"\n' in sources[-1]
    assert sources[0] != sources[1]
    assert run_verb(["header", *plain, *outputs]) == 0
    assert ".incbin" not in (tmp_path / "net.S").read_text()


def test_names_that_cpp_has_for_others(tmp_path: Path) -> None:
    """Names of locals, of two types, and of a target with a hyphen."""
    header = tmp_path / "net.h"
    flags = ["--namespace=app::net-v2", "--link=kernels", "--link=XnnpackBackend"]
    assert run_verb(["header", *_program(tmp_path, "names", "xnnpack"), f"--header={header}", *flags]) == 0
    text = header.read_text()
    assert "namespace app::net_v2 {" in text
    assert "const executorch::aten::Tensor& values_1, const executorch::aten::Tensor& call_1)" in text
    assert "struct GetXMemory {" in text and "struct GetX_1Memory {" in text


def test_another_manifest(tmp_path: Path, plain: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    _, manifest, _ = _program(tmp_path, "plain", "xnnpack")
    assert run_verb(["header", plain[0], manifest, f"--header={tmp_path / 'net.h'}"]) == 2
    assert "the manifest of net.pte describes another program" in capfd.readouterr().err
    (tmp_path / "sizes.json").write_text('{"forward": {}}')
    assert (
        run_verb(["header", *plain, f"--memory={tmp_path / 'sizes.json'}", f"--header={tmp_path / 'n.h'}"])
        == 2
    )


@pytest.mark.parametrize("least", ["Infinity", "[1]", '"x"'])
def test_another_signature(
    tmp_path: Path, plain: list[str], least: str, capfd: pytest.CaptureFixture[str]
) -> None:
    method = f'{{"symbols": {{"s0": {{"min": {least}}}}}, "inputs": [{{"shape": ["s0"]}}]}}'
    (tmp_path / "s.json").write_text(f'{{"methods": {{"forward": {method}}}}}')
    flags = [f"--signature={tmp_path / 's.json'}", f"--header={tmp_path / 'n.h'}", "--link=kernels"]
    code = run_verb(["header", *plain[:2], *flags])
    printed = capfd.readouterr().err
    assert code == 2 and "s.json was not written by `delegatec export`" in printed
