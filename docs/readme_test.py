# SPDX-License-Identifier: Apache-2.0
"""Handwritten pages: their code runs, messages are real, and links are valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pages import with_backends
from runfiles import Runfiles

from delegatec import export, lower
from delegatec.backends import builtin_backends
from delegatec.cli.main import run_verb
from delegatec.diagnostics import DelegatecError

RUNFILES = Runfiles.Create()
assert RUNFILES is not None
WORKSPACE = RUNFILES.Rlocation("rules_delegate/WORKSPACE")
assert WORKSPACE is not None
ROOT = Path(WORKSPACE).resolve().parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

# The model of the quoted message.
RANKER = """\
import torch
import delegatec


class Ranker(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.linear(x)
        return torch.frexp(scores).mantissa


def build() -> delegatec.Model:
    return delegatec.Model(Ranker(), (torch.rand(1, 8),))
"""


DECODER = """\
import torch
import delegatec


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(9, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(ids))
"""

CLASSIFIER = """\
import torch
import delegatec


def network() -> torch.nn.Module:
    layers = torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(72, 10)
    return torch.nn.Sequential(*layers).eval()


"""

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "examples/*/README.md", "rules/README.md", "python/**/README.md")
    for path in ROOT.glob(pattern)
)
FOR_CONTRIBUTORS = [
    page for page in PAGES if page.startswith(("ARCHITECTURE", "CONTRIBUTING", "python/", "rules/"))
]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", path.read_text(encoding="utf-8"))
    files = [(path.parent / target if target else path, anchor) for target, anchor in links]
    assert [file for file, _ in files if not file.exists()] == []
    assert [(file, anchor) for file, anchor in files if anchor and anchor not in anchors(file)] == []


@pytest.mark.parametrize("page", FOR_CONTRIBUTORS)
def test_named_files_exist(page: str) -> None:
    """A page for contributors names files by the ends of their paths; names in capitals stand for others."""
    named = re.findall(
        r"`([a-z][a-z0-9_/]*\.(?:bzl|fbs|json|py))`", (ROOT / page).read_text(encoding="utf-8")
    )
    folders = [
        ROOT / name for name in ("docs", "examples", "python", "rules", "schemas", "tests", "third_party")
    ]
    missing = {name for name in named if not (ROOT / name).exists()}
    found = {name for name in missing for folder in folders for _ in folder.rglob(name)}
    assert missing == found


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()
    assert "](docs/README.md)" in README


def test_links_are_found() -> None:
    assert {"README.md", "ARCHITECTURE.md", "docs/README.md", "docs/mps.md"} <= {*PAGES}
    assert {"what-you-write", "read-on"} <= anchors(ROOT / "README.md")


def test_the_backends_are_those_of_the_table() -> None:
    table = RUNFILES.Rlocation("rules_delegate/rules/private/backends.json")
    assert table is not None
    rows = json.loads(Path(table).read_text(encoding="utf-8"))
    assert with_backends(README, rows) == README, "README.md is out of date: bazel run //docs:generate"
    another = with_backends(README, {"new": {"title": "New", "options": ["flags"], "package": ""}})
    assert "| New | `new_program(flags = ...)` | [docs/operators_new.md]" in another
    assert "mps_program(fp16_overflow" not in another


@pytest.mark.parametrize("backend", ["portable", *(backend.name for backend in builtin_backends())])
def test_the_model_compiles(backend: str) -> None:
    (code,) = re.findall(r"```python\n(# foo\.py\n.*?)```", README, re.DOTALL)
    namespace: dict[str, object] = {}
    exec(code, namespace)
    model = export(namespace["build"]())  # type: ignore[operator]
    if backend == "ethos_u":  # computes in integers
        with pytest.raises(DelegatecError, match="DC424"):
            lower(model, backend)
    else:
        assert lower(model, backend).emitted.methods[0].instructions


@pytest.mark.parametrize("file", ["WORKSPACE", "MODULE.bazel"])
def test_declarations_are_those_of_the_tested_workspace(file: str) -> None:
    (code,) = re.findall(rf"```starlark\n# {file}\n(.*?)```", README, re.DOTALL)
    # The workspace is copied, and names the path of this one.
    tested = (ROOT / "tests/consumer/workspace" / file).read_text(encoding="utf-8")
    assert code in tested.replace("%{rules_delegate}", "../rules_delegate")


def test_constraints_are_the_versions_of_the_lock() -> None:
    page = (ROOT / "docs/wheels.md").read_text(encoding="utf-8")
    lock = (ROOT / "third_party/python/compiler.lock.txt").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^constraint-dependencies = \[(.*)\]", page, re.MULTILINE)
    pins = re.findall(r'"([\w-]+==[\d.]+)"', shown)
    assert len(pins) >= 2
    assert [pin for pin in pins if not re.search(rf"^{re.escape(pin)}[+ ]", lock, re.MULTILINE)] == []


def test_several_sizes_are_methods() -> None:
    page = (ROOT / "docs" / "mps.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(def build.*?)```", page, re.DOTALL)
    namespace: dict[str, object] = {}
    exec(DECODER + code, namespace)
    lowered = lower(export(namespace["build"]()), "mps")  # type: ignore[operator]
    assert list(lowered.reports) == ["prefill_16", "prefill_128", "step"]
    for report in lowered.reports.values():
        assert (len(report.delegates), report.nodes_left) == (1, 0)


def test_a_dynamic_size_is_in_the_delegate() -> None:
    page = (ROOT / "docs" / "mlx.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(def build.*?)```", page, re.DOTALL)
    namespace: dict[str, object] = {}
    exec(CLASSIFIER + code, namespace)
    (report,) = lower(export(namespace["build"]()), "mlx").reports.values()  # type: ignore[operator]
    assert (len(report.delegates), report.nodes_left) == (1, 0)


def test_the_message_is_what_the_compiler_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "foo.py").write_text(RANKER, encoding="utf-8")
    label = ["--label=//models:foo_portable"]
    source = ["--entry=foo:build", "--source=models/foo.py", "--import-path=models"]
    assert run_verb(["export", *label, *source, "--program=foo.pt2", "--signature=foo.json"]) == 0
    assert run_verb(["lower", *label, "--program=foo.pt2", "--backend=portable", "--pte=foo.pte"]) == 1
    assert f"```\n{capfd.readouterr().err.strip()}\n```" in README


def test_recipes_are_part_of_a_tested_workspace() -> None:
    page = (ROOT / "docs" / "monorepo.md").read_text(encoding="utf-8")
    folder = ROOT / "tests/consumer/workspace/settings"
    tested = [(folder / name).read_text(encoding="utf-8") for name in ("BUILD.bazel", "variants.bzl")]
    recipes = re.findall(r"^```starlark\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(recipes) >= 4
    for recipe in recipes:
        assert any(recipe in file for file in tested), recipe
