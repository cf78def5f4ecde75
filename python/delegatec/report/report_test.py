# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import itertools
import json
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch.export import ExportedProgram, export

from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.report import Manifest, build_manifest, html, render_html, to_json
from delegatec.report.debug_map import debug_map
from delegatec.report.debug_text import debug_rows
from delegatec.report.manifest import from_json
from delegatec.report.memory_picture import draw_memory
from delegatec.report.needs import links_text
from delegatec.report.partition_picture import draw_partition


class Model(torch.nn.Module):
    """Tied weights, state, a branch, and float64, which the MPS runtime lacks."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.register_buffer("steps", torch.zeros(3, 16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        z = torch.sigmoid(self.second(torch.cumsum(y.double(), 1).float())) * y
        self.steps.add_(z)
        return z + self.steps, torch.flip(z.double(), [0]).float()


def _exported() -> ExportedProgram:
    torch.manual_seed(0)
    return export(Model().eval(), (torch.randn(3, 16),))


def _manifest(folder: Path, backend: str, label: str = "//models:model") -> Manifest:
    folder.mkdir(exist_ok=True)
    lowered = lower({"forward": _exported()}, backend)
    with open(folder / "program.pte", "wb") as file:
        write_program(lowered.emitted, file)
    return build_manifest(
        lowered,
        folder / "program.pte",
        compiler="delegatec test",
        label=label,
    )


@pytest.fixture(scope="module", params=["portable", "mps"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, backend: str) -> Path:
    return tmp_path_factory.mktemp(backend)


@pytest.fixture(scope="module")
def manifest(folder: Path, backend: str) -> Manifest:
    return _manifest(folder, backend)


def test_json_holds_everything_and_is_the_same_every_time(
    manifest: Manifest, backend: str, tmp_path: Path
) -> None:
    text = to_json(manifest)
    assert json.loads(text) == json.loads(json.dumps(dataclasses.asdict(manifest)))
    assert to_json(_manifest(tmp_path / "elsewhere", backend)) == text
    assert str(tmp_path) not in text


def test_checksums_are_those_of_the_bytes(manifest: Manifest, folder: Path) -> None:
    content = (folder / "program.pte").read_bytes()
    assert manifest.file.bytes == len(content)
    assert manifest.file.crc32 == f"{zlib.crc32(content):08x}"
    for part in manifest.file.parts:
        assert f"{zlib.crc32(content[part.offset : part.offset + part.bytes]):08x}" == part.crc32


def test_delegates_have_the_checksums_of_their_blobs(manifest: Manifest, folder: Path) -> None:
    (method,) = read_program(folder / "program.pte").methods
    blobs = [f"{zlib.crc32(delegate.blob):08x}" for delegate in method.delegates]
    assert [delegate.crc32 for delegate in manifest.methods[0].delegates] == blobs


def test_a_manifest_is_read_from_its_json(manifest: Manifest) -> None:
    assert from_json(to_json(manifest)) == manifest


def test_nodes_are_accounted_for(manifest: Manifest, backend: str) -> None:
    (method,) = manifest.methods
    left = sum(node.delegate is None for node in method.graph)
    assert left == method.nodes - method.nodes_delegated
    assert sum(delegate.nodes for delegate in method.delegates) == method.nodes_delegated
    if backend == "portable":
        assert not method.delegates and not method.not_delegated
    else:
        assert method.delegates
        assert {item.operator for item in method.not_delegated} >= {
            "aten.cumsum.default",
            "aten.flip.default",
        }
        assert all(item.rule and item.message and item.location for item in method.not_delegated)


def test_signature_and_state(manifest: Manifest) -> None:
    (method,) = manifest.methods
    assert [(a.name, a.dtype, a.shape) for a in method.inputs] == [("x", "float32", (3, 16))]
    assert [(a.dtype, a.shape) for a in method.outputs] == [("float32", (3, 16))] * 2
    assert {a.layout for a in (*method.inputs, *method.outputs)} == {"contiguous"}
    assert [weight.names for weight in manifest.weights if weight.mutable] == [("steps",)]


def test_weights_of_the_portable_program(tmp_path: Path) -> None:
    weights = _manifest(tmp_path, "portable").weights
    assert [(w.dtype, w.bytes) for w in weights if w.shape == (16, 16)] == [
        ("float32", 1024)
    ]  # tied: stored once
    assert {"first.bias", "second.bias", "steps"} <= {name for w in weights for name in w.names}


class _Checker(HTMLParser):
    """Counts tags, and rejects references to other files."""

    VOID = frozenset({"meta", "col", "br", "wbr", "path", "rect", "line"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe", "object"}
        assert not {"src", "href", "srcset", "onclick"} & {name for name, _ in attrs}
        if tag not in self.VOID or (tag == "rect" and self.get_starttag_text()[-2:] != "/>"):  # type: ignore[index]
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_stands_alone_and_is_well_formed(manifest: Manifest) -> None:
    page = render_html(manifest)
    checker = _Checker()
    checker.feed(page)
    assert not checker.open
    assert "url(" not in page and "@import" not in page
    assert render_html(manifest) == page
    assert f"An app links: {links_text(manifest.runtime)}" in page and manifest.runtime.operators
    text = "".join(checker.text)
    for kernel in manifest.methods[0].kernels:
        assert kernel.name in text
    for item in manifest.methods[0].not_delegated:
        assert item.message in text and item.location is not None
        assert f"{item.location.file}:{item.location.line}" in text


def test_the_page_has_the_lines_of_every_instruction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lowered = lower({"forward": _exported()}, "mps")
    document = debug_map(lowered.sources, lowered.emitted)
    rows = debug_rows(document["methods"]["forward"])
    checker = _Checker()
    checker.feed(render_html(_manifest(tmp_path, "mps"), document))
    assert not checker.open
    text = "".join(checker.text)
    assert len(rows) > 5 and all(calls in text and locations in text for _, calls, _, locations in rows)
    monkeypatch.setattr(html, "LINES_SHOWN", 3)
    cut = render_html(_manifest(tmp_path, "mps"), document)
    assert f"and {len(rows) - 3} more, in the debug map" in cut


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    page = render_html(_manifest(tmp_path, "portable", label="//a:<script>alert(1)</script>&b"))
    assert "<script" not in page and "&lt;script&gt;" in page


def test_boxes_of_the_partition_do_not_overlap(manifest: Manifest) -> None:
    picture = draw_partition(manifest.methods[0])
    for box in picture.boxes:
        assert box.x >= 0 and box.x + box.width <= picture.width + 0.01
        assert box.y >= 0 and box.y + box.height <= picture.height + 0.01
    for a, b in itertools.combinations(picture.boxes, 2):
        apart = (
            a.x + a.width <= b.x + 0.01
            or b.x + b.width <= a.x + 0.01
            or a.y + a.height <= b.y
            or b.y + b.height <= a.y
        )
        assert apart, (a, b)
    drawn = sum(box.kind == "delegate" for box in picture.boxes)
    assert drawn == len(manifest.methods[0].delegates)


def test_rectangles_of_the_memory_plan_do_not_overlap(manifest: Manifest) -> None:
    picture = draw_memory(manifest.methods[0])
    assert picture is not None
    for r in picture.rectangles:
        assert r.x >= 0 and r.x + r.width <= picture.width + 0.01
        assert r.y >= -0.01 and r.y + r.height <= picture.height + 0.01
    for a, b in itertools.combinations(picture.rectangles, 2):
        together = a.x < b.x + b.width - 0.01 and b.x < a.x + a.width - 0.01
        assert not (together and a.y < b.y + b.height - 0.01 and b.y < a.y + a.height - 0.01)
