# SPDX-License-Identifier: Apache-2.0
"""Lines of the model: next to the archive, which stays the same when only they change."""

from __future__ import annotations

import json
import linecache
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from delegatec.diagnostics import DelegatecError, SourceLocation
from delegatec.edge.source import location_of
from delegatec.frontend import archive
from delegatec.frontend.export import ExportRequest, export_model
from delegatec.frontend.sources import SourceTable, read_sources

NET = """\
import torch
import delegatec

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x).relu()
        def shifted(y):
            return (y + 1).sin()
        def doubled(y):
            return y * 2
        z = torch.cond(y.sum() > 0, shifted, doubled, (y,))
        return z, torch.topk(x, 2)

    def encode(self, x):
        return self.linear(x)

def build():
    batch = torch.export.Dim("batch", min=2, max=7)
    x = torch.ones(2, 4)
    methods = {"encode": delegatec.Method("encode", (x,))}
    return delegatec.Model(Net(), (x,), dynamic_shapes=({0: batch},), methods=methods)
"""


@pytest.fixture(autouse=True)
def _in_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exported(text: str, name: str = "net") -> tuple[bytes, dict[str, Any]]:
    """Exports a model; returns the archive and its lines."""
    Path("net.py").write_text(text)
    # On a fast machine the texts of one test have the same second anyway.
    os.utime("net.py", (0, 0))
    linecache.clearcache()
    export_model(ExportRequest("net:build", ("net.py",), (".",), program=f"{name}.pt2"))
    sys.modules.pop("net")
    return Path(f"{name}.pt2").read_bytes(), json.loads(Path(f"{name}.sources.json").read_text())


def lines(program: ExportedProgram) -> dict[str, SourceLocation]:
    """Returns the line of each node of a program and its bodies that has one."""
    nodes = [
        node
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
    ]
    found = [(node.name, location_of(node.meta.get("stack_trace"))) for node in nodes]
    return {name: location for name, location in found if location is not None}


EDITS: dict[str, Callable[[str], str]] = {
    "comment": lambda text: text.replace("z, torch", "z, torch", 1) + "# the end\n",
    "comment on a line": lambda text: text.replace("relu()\n", "relu()  # no negative ones\n"),
    "blank lines": lambda text: "\n\n" + text,
    "formatting": lambda text: text.replace(
        "self.linear(x).relu()", "self.linear(\n            x\n        ).relu()"
    ),
    "name of a variable": lambda text: text.replace("z = torch.cond", "w = torch.cond").replace(
        "return z", "return w"
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_that_keep_the_graph_keep_the_archive(edit: str) -> None:
    before, _ = exported(NET)
    changed = EDITS[edit](NET)
    assert changed != NET
    assert exported(changed)[0] == before


def test_a_change_of_the_graph_changes_the_archive() -> None:
    assert exported(NET)[0] != exported(NET.replace("y * 2", "y * 3"))[0]


def test_the_archive_names_no_file() -> None:
    exported(NET)
    with zipfile.ZipFile("net.pt2") as members:
        assert not [info.filename for info in members.infolist() if b"net.py" in members.read(info)]


@pytest.mark.parametrize("trusted", [False, True])
def test_lines_are_found_beside_the_archive(trusted: bool) -> None:
    exported(NET)
    methods = archive.load("net.pt2", trusted=trusted).methods
    line_numbers = {name: location.line for name, location in lines(methods["forward"]).items()}
    assert {name: line_numbers[name] for name in ("linear", "relu", "add", "sin", "mul", "topk")} == (
        {"linear": 10, "relu": 10, "add": 12, "sin": 12, "mul": 14, "topk": 16}
    )
    expected = SourceLocation("net.py", 19, "encode", "return self.linear(x)")
    assert lines(methods["encode"])["linear"] == expected


def test_lines_are_those_of_the_last_export() -> None:
    exported(NET)
    exported("\n" + NET)
    assert lines(archive.load("net.pt2").methods["encode"])["linear"].line == 20


def test_torch_reads_the_archive() -> None:
    exported(NET.replace(", methods=methods", ""))
    x = torch.ones(3, 4)
    expected = archive.load("net.pt2").methods["forward"].module()(x)
    torch.testing.assert_close(torch.export.load("net.pt2").module()(x), expected)


def test_without_lines_locations_refer_to_nodes() -> None:
    exported(NET)
    found = lines(archive.load("net.pt2", sources="").methods["forward"])
    assert {location.file for location in found.values()} == {"sources:forward"}
    table = read_sources("net.sources.json")
    assert table.location(found["sin"]) == SourceLocation("net.py", 12, "shifted", "return (y + 1).sin()")
    assert table.replaced(f"# {found['sin']}") == "# net.py:12"
    assert table.replaced("# sources:forward:99, sources:other:1") == "# sources:forward:99, sources:other:1"


def test_lines_of_another_model_are_not_taken() -> None:
    exported(NET)
    _, other = exported(NET.replace(".relu()", ".tanh()"), "other")
    Path("net.sources.json").write_text(json.dumps(other))
    found = lines(archive.load("net.pt2").methods["forward"])
    assert found["relu"].file == "sources:forward"
    assert found["linear"].file == "net.py"


def test_frames_of_libraries_are_kept() -> None:
    Path("site-packages").mkdir()
    Path("site-packages/layers.py").write_text("def scaled(x):\n    return x * 3\n")
    text = NET.replace("return self.linear(x)", "import layers; return layers.scaled(x)")
    sys.path.insert(0, str(Path("site-packages").resolve()))
    try:
        exported(text)
    finally:
        sys.path.pop(0)
        sys.modules.pop("layers", None)
    location = lines(archive.load("net.pt2").methods["encode"])["mul"]
    assert (location.line, location.via) == (19, "site-packages/layers.py:2")


def test_a_number_of_any_length_is_read() -> None:
    table = SourceTable({"forward": [("relu", (SourceLocation("net.py", 3, "forward", "y"),))]})
    digits = "1" * 5000
    assert str(table.short_location("sources:forward:1")) == "net.py:3"
    assert table.short_location(f"sources:forward:{digits}") is None
    assert table.replaced(f"sources:forward:{digits}") == f"sources:forward:{digits}"
    trace = f'  File "sources:forward", line {digits}, in relu'
    assert table.stack_trace(trace) == trace


def _without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: [],
        lambda document: _without(document, "frames"),
        lambda document: _without(document, "methods"),
        lambda document: document | {"frames": []},
        lambda document: document | {"frames": [{"file": "a", "line": "1", "function": "f", "text": ""}]},
        lambda document: document | {"methods": {"forward": [{"node": "a", "frames": [-1]}]}},
        lambda document: document | {"methods": {"forward": [{"node": 1, "frames": [0]}]}},
        lambda document: document | {"methods": {"forward": [[]]}},
    ],
)
def test_a_damaged_table_is_one_diagnostic(damage: Callable[[dict[str, Any]], Any]) -> None:
    _, table = exported(NET)
    Path("net.sources.json").write_text(json.dumps(damage(table)))
    with pytest.raises(DelegatecError) as caught:
        archive.load("net.pt2")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "DC120"
    assert "net.sources.json" in diagnostic.message


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"PK\x03\x04"])
def test_a_file_that_is_no_table_is_one_diagnostic(content: bytes) -> None:
    exported(NET)
    Path("net.sources.json").write_bytes(content)
    with pytest.raises(DelegatecError, match=r"DC120.*cannot read net\.sources\.json"):
        archive.load("net.pt2")
