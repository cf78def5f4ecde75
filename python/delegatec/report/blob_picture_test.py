# SPDX-License-Identifier: Apache-2.0
"""Drawings of graphs in blobs: contents, layout, and a bounded size."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.delegation import (
    BlobGraph,
    BlobLabels,
    BlobNode,
    BlobValue,
    Family,
    PartitionRules,
    format_blob_graph,
)
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.report import html, layered
from delegatec.report.blob_boxes import Box
from delegatec.report.blob_drawing import Picture
from delegatec.report.blob_graphs import blob_graphs
from delegatec.report.blob_labels import blob_labels, delegate_labels
from delegatec.report.blob_picture import BOXES_SHOWN, Section, draw_blob
from delegatec.report.blob_sections import Group, Repetition, group_nodes, operations
from delegatec.report.build import build_manifest
from delegatec.report.debug_map import debug_map, debug_map_json
from delegatec.report.html import render_html
from delegatec.report.layered import Cell, Edge, _Spot, lay_out


class Layer(torch.nn.Module):
    """Two branches and a residual."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.wide, self.narrow = torch.nn.Linear(size, 2 * size), torch.nn.Linear(2 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.narrow(torch.nn.functional.gelu(self.wide(self.norm(x))))
        return x + y * torch.sigmoid(x)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(*(Layer(8) for _ in range(5)), torch.nn.Tanh(), Layer(8))
        self.head = torch.nn.Linear(8, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.encoder(x).mean(1))
        return result


Built = tuple[BlobGraph, BlobLabels, str]


def built_page(module: torch.nn.Module, args: tuple[torch.Tensor, ...], pte: Path) -> Built:
    """Returns the graph of a module's first delegate, its labels, and the module's report."""
    rules = PartitionRules(block_operators=("aten.sin",) if isinstance(module, Cut) else ())
    lowered = lower({"forward": torch.export.export(module.eval(), args)}, "mps", rules=rules)
    with open(pte, "wb") as file:
        write_program(lowered.emitted, file)
    document = debug_map(lowered.sources, lowered.emitted)
    parsed = json.loads(debug_map_json(lowered.sources, lowered.emitted))
    assert [*blob_labels(parsed).values()] == [*delegate_labels(document).values()]
    graphs = blob_graphs(pte, document, builtin_backends())
    assert blob_graphs(pte, document, []) == {}
    manifest = build_manifest(
        lowered,
        pte,
        compiler="test",
        label="//:net",
    )
    labels = delegate_labels(document)["forward", "lowered_0"]
    return graphs["forward"]["lowered_0"], labels, render_html(manifest, document, graphs)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A small encoder."""
    torch.manual_seed(0)
    return built_page(Net(), (torch.zeros(1, 4, 8),), tmp_path_factory.mktemp("built") / "program.pte")


def pictures(section: Section) -> Iterator[Picture]:
    """All drawings, those in frames included."""
    pending = [section.picture]
    for picture in pending:
        yield picture
        pending += [frame.inner for frame in picture.frames if frame.inner is not None]
    for part in section.parts:
        yield from pictures(part)


def boxes(section: Section) -> list[Box]:
    return [box for picture in pictures(section) for box in picture.boxes]


def test_layers_of_the_same_structure_are_drawn_once(built: Built) -> None:
    graph, labels, _ = built
    items = group_nodes(graph, labels.modules)
    assert list(operations(items)) == list(graph.nodes)
    encoder = next(item for item in items if isinstance(item, Group) and item.path == "encoder")
    layers = encoder.items[0]
    assert isinstance(layers, Repetition)
    assert (layers.name, layers.path) == ("encoder.0 … 4", "encoder.0 … 4")
    assert len({group.size for group in layers.groups}) == 1
    picture = draw_blob(graph, labels)
    (part,) = picture.whole.parts
    assert part.title == "encoder.0 … 4" and len(part.instances) == 5
    assert [row.path for row in part.instances] == [f"encoder.{i}" for i in range(5)]
    assert {row.bytes for row in part.instances} == {4 * (8 + 8 + 128 + 16 + 128 + 8)}
    drawn = [box for box in boxes(part) if box.kind.startswith("op ")]
    assert len(drawn) == layers.groups[0].size
    # The layer after the Tanh is equal, and refers to them.
    folded = [box for box in boxes(picture.whole) if box.kind == "fold"]
    assert all("like encoder.0 … 4" in box.lines[0] for box in folded)


def test_every_operation_is_drawn_or_collapsed(built: Built) -> None:
    graph, labels, _ = built
    picture = draw_blob(graph, labels)
    assert picture.omitted == 0
    assert sum(count for _, _, count in picture.families) == len(graph.nodes)
    tooltips = {box.tooltip.partition(" ")[0] for box in boxes(picture.whole) if box.kind.startswith("op ")}
    repeated = {node.identifier for part in group_nodes(graph, labels.modules) for node in operations([part])}
    assert len(tooltips) < len(repeated) == len(graph.nodes)


def test_boxes_name_their_weights(built: Built) -> None:
    graph, labels, page = built
    lines = [line for box in boxes(draw_blob(graph, labels).whole) for line in box.lines]
    assert "norm.weight f32[8] 32 B" in lines
    assert "weight f32[16, 8] 512 B" in lines  # in the frame of the module that has it
    assert "norm.weight f32[8] 32 B" in page and "encoder.4" in page
    assert "5 \u00d7 " in page and "<details" in page
    assert "blob_picture_test.py" in page  # a line of the model, in a tooltip


def overlap(a: Cell, b: Cell) -> bool:
    return (
        a.x + a.width > b.x + 0.01
        and b.x + b.width > a.x + 0.01
        and a.y + a.height > b.y + 0.01
        and b.y + b.height > a.y + 0.01
    )


def check_positions(picture: Picture) -> None:
    cells: list[Cell] = [*picture.boxes, *picture.frames]
    assert not any(overlap(a, b) for a, b in itertools.combinations(cells, 2))
    for cell in cells:
        assert cell.x >= -0.01 and cell.x + cell.width <= picture.width + 0.01
        assert cell.y >= -0.01 and cell.y + cell.height <= picture.height + 0.01
    for frame in picture.frames:
        assert frame.inner is not None
        assert frame.offset[0] + frame.inner.width <= frame.width
        assert frame.offset[1] + frame.inner.height <= frame.height


def test_nothing_overlaps_and_everything_fits(built: Built) -> None:
    graph, labels, _ = built
    found = list(pictures(draw_blob(graph, labels).whole))
    assert any(picture.frames for picture in found)
    for picture in found:
        check_positions(picture)


def chain(count: int, modules: int = 0) -> tuple[BlobGraph, BlobLabels]:
    """A chain of operations, each with an additional earlier operand; in modules of a given size."""
    values = {id: BlobValue("f16", (1, id % 7 + 1)) for id in range(count + 1)}
    nodes = tuple(
        BlobNode(i, "Add", Family.ARITHMETIC, (("", i), ("", max(0, i - 5))), (i + 1,)) for i in range(count)
    )
    paths = {str(i): f"block.{i // modules}" for i in range(count)} if modules else {}
    return BlobGraph("Graph", nodes, values, (0,), (count,), ()), BlobLabels(modules=paths)


@pytest.mark.parametrize("modules", [0, 10])
def test_a_large_graph_is_cut_with_a_note(modules: int) -> None:
    graph, labels = chain(10_000, modules)
    start = time.process_time()
    picture = draw_blob(graph, labels)
    assert time.process_time() - start < 20
    drawn = boxes(picture.whole)
    assert BOXES_SHOWN / 2 < len(drawn) < 2 * BOXES_SHOWN
    shown = sum(box.kind.startswith("op ") for box in drawn)
    first = [box.lines[0] for box in drawn if box.kind == "fold"]
    likewise = sum(int(line.split()[0]) for line in first if ", like " in line)
    assert picture.omitted + shown + likewise == 10_000


def test_a_graph_without_operations() -> None:
    graph, labels = chain(0)
    assert [box.kind for box in boxes(draw_blob(graph, labels).whole)] == []


def test_a_damaged_graph_is_drawn_all_the_same() -> None:
    values = {id: BlobValue("f32", (1,)) for id in range(3)}
    nodes = (BlobNode("a", "Add", Family.ARITHMETIC, (("", 2), ("", -1)), (1,)),)
    picture = draw_blob(BlobGraph("Graph", nodes, values, (0,), (1, 2), ()), BlobLabels())
    assert [box.title for box in picture.whole.picture.boxes if box.kind.startswith("op ")] == ["Add"]


def test_dead_code_is_marked() -> None:
    values = {id: BlobValue("f32", (1,)) for id in range(4)}
    nodes = tuple(BlobNode(i, "Neg", Family.MOVE, (("", j),), (i + 1,)) for i, j in enumerate((0, 0, 2)))
    graph = BlobGraph("Graph", nodes, values, (0,), (1,), ())
    assert graph.dead == {1, 2}
    picture = draw_blob(graph, BlobLabels())
    assert [box.kind for box in boxes(picture.whole) if box.kind.startswith("op")] == [
        "op move small",
        "op move dead small",
        "op move dead small",
    ]
    assert picture.notes == ("dead code: 2 operations, which the runtime may omit",)
    assert f"note: {picture.notes[0]}" in format_blob_graph(graph)


def test_layers_follow_the_edges() -> None:
    top, left, right, bottom = (Cell(40, 10) for _ in range(4))
    edges = [Edge(top, left), Edge(left, right), Edge(top, bottom), Edge(right, bottom), Edge(top, top)]
    drawing = lay_out([bottom, right, left, top], edges)
    assert top.y < left.y < right.y < bottom.y
    # top to bottom skips two layers, through two points
    assert len(drawing.paths) == 3 + 3
    assert drawing.height == bottom.y + 10


def test_long_edges_share_a_number_of_dummies(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[_Spot] = []

    class Counted(_Spot):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(layered, "_Spot", Counted)
    top, *chain = (Cell(40, 10) for _ in range(1001))
    sides = [Cell(40, 10) for _ in chain]
    edges = [Edge(upper, lower) for upper, lower in itertools.pairwise([top, *chain])]
    edges += [Edge(top, side) for side in sides]
    edges += [Edge(side, lower) for side, lower in zip(sides, chain, strict=True)]
    drawing = lay_out([top, *chain, *sides], edges)
    assert len(made) < 2001 + 20 * 2001 + 5000  # each side has its own way down: half a million otherwise
    assert len(drawing.paths) >= len(edges)


def test_the_page_needs_nothing_else(built: Built) -> None:
    _, _, page = built
    assert "Graph of <code>lowered_0</code>" in page and "not drawn" not in page
    assert "<script" not in page and "http" not in page and "url(" not in page


class Cut(torch.nn.Module):
    """Three delegates around operators that rules reject."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.sin(torch.relu(x) * 2.0)
        return x.exp()


def test_each_delegate_has_a_drawing_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = built_page(Cut(), (torch.zeros(2, 3),), tmp_path / "a.pte")[2]
    found = re.findall(r"Graph of <code>(\w+)</code>", page)
    assert found == ["lowered_0", "lowered_1", "lowered_2"]
    monkeypatch.setattr(html, "BOXES_SHOWN", 3)
    page = built_page(Cut(), (torch.zeros(2, 3),), tmp_path / "b.pte")[2]
    assert re.findall(r"Graph of <code>(\w+)</code>", page) == ["lowered_0"]
    assert "The graphs of 2 more delegates are not drawn" in page
