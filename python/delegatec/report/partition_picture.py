# SPDX-License-Identifier: Apache-2.0
"""The drawing of a partition: boxes in layers, from inputs at the top to outputs.

Runs of operators without branches are drawn as one box, so that hundreds of operators fit a page.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from delegatec.report.layered import Cell, Edge, lay_out
from delegatec.report.methods import DelegateInfo, GraphNode, MethodInfo
from delegatec.report.sizes import human_bytes

_WIDTH: Final = 256
_LINE: Final = 16
_PADDING: Final = 12
# Number of operator kinds that a box lists.
_NAMED: Final = 4
# Number of characters that fit a line of a box.
_CHARACTERS: Final = 41


@dataclass(eq=False)
class Box(Cell):
    """A box of the drawing.

    Attributes:
        title: the first line.
        lines: the other lines.
        kind: "input", "output", "operators" or "delegate".
        tooltip: a full description.
    """

    title: str = ""
    lines: list[str] = field(default_factory=list)
    kind: str = "operators"
    tooltip: str = ""

    def __post_init__(self) -> None:
        self.width = _WIDTH
        self.height = 2 * _PADDING + _LINE * (1 + len(self.lines)) - 4
        self.pin = {"input": -1, "output": 1}.get(self.kind, 0)


@dataclass(frozen=True)
class Picture:
    """A finished drawing.

    Attributes:
        width: in pixels.
        height: in pixels.
        boxes: the boxes.
        edges: SVG paths.
    """

    width: float
    height: float
    boxes: list[Box]
    edges: tuple[str, ...]


def draw_partition(method: MethodInfo) -> Picture:
    """Lays out the graph of a method."""
    boxes, edges = _boxes(method)
    drawing = lay_out(boxes, edges)
    return Picture(drawing.width, drawing.height, boxes, drawing.paths)


_NAMESPACES: Final = frozenset({"aten", "delegatec", "dim_order_ops", "prims", "quantized_decomposed"})


def short_name(operator: str) -> str:
    """Returns the short name of an operator: "add" for "aten.add.Tensor"."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in _NAMESPACES else operator


def _boxes(method: MethodInfo) -> tuple[list[Box], list[Edge]]:
    groups = _runs(method.graph)
    box_of: dict[int, Box] = {}
    source = Box(title="inputs", lines=[_arguments([a.name for a in method.inputs])], kind="input")
    sink = Box(title="outputs", lines=[_arguments([a.name for a in method.outputs])], kind="output")
    boxes = [source]
    for group in groups:
        box = _box([method.graph[i] for i in group], method.delegates)
        boxes.append(box)
        for index in group:
            box_of[index] = box
    edges = []
    for index, node in enumerate(method.graph):
        box = box_of[index]
        edges += [Edge(box_of[other], box) for other in node.inputs]
        if node.reads_input:
            edges.append(Edge(source, box))
        if node.is_output:
            edges.append(Edge(box, sink))
    return [*boxes, sink], edges


def _runs(graph: tuple[GraphNode, ...]) -> list[list[int]]:
    """Returns the longest runs of operators, each the only user of the previous one, without delegates."""
    readers = Counter(source for node in graph for source in node.inputs)
    run_of: dict[int, list[int]] = {}
    runs: list[list[int]] = []
    for index, node in enumerate(graph):
        before = node.inputs[0] if len(node.inputs) == 1 and not node.reads_input else None
        joins = (
            before is not None
            and node.delegate is None
            and graph[before].delegate is None
            and readers[before] == 1
            and not graph[before].is_output
        )
        run = run_of[before] if joins and before is not None else []
        if not run:
            runs.append(run)
        run.append(index)
        run_of[index] = run
    return runs


def _box(nodes: list[GraphNode], delegates: tuple[DelegateInfo, ...]) -> Box:
    first = nodes[0]
    if first.delegate is not None:
        delegate = delegates[first.delegate]
        noun = "operator" if delegate.nodes == 1 else "operators"
        lines = [f"{delegate.nodes} {noun} · {human_bytes(delegate.bytes)}"]
        tooltip = "\n".join(f"{count.count} {count.name}" for count in delegate.operators)
        title = f"{delegate.backend} · {delegate.name}"
        return Box(title=title, lines=lines, kind="delegate", tooltip=tooltip)
    tooltip = "\n".join(map(_with_location, nodes))
    if len(nodes) == 1:
        where = [f"{first.location.file.rpartition('/')[2]}:{first.location.line}"] if first.location else []
        return Box(title=short_name(first.operator), lines=[_cut(text) for text in where], tooltip=tooltip)
    counts = Counter(short_name(node.operator) for node in nodes)
    lines = [f"{name} \u00d7 {n}" if n > 1 else name for name, n in counts.items()]
    if len(lines) > _NAMED:
        lines = [*lines[: _NAMED - 1], f"and {len(lines) - _NAMED + 1} more kinds"]
    return Box(title=f"{len(nodes)} operators", lines=[_cut(text) for text in lines], tooltip=tooltip)


def _with_location(node: GraphNode) -> str:
    return f"{node.operator}  {node.location.file}:{node.location.line}" if node.location else node.operator


def _arguments(names: list[str]) -> str:
    return _cut(", ".join(names))


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
