# SPDX-License-Identifier: Apache-2.0
"""Where to draw what in the picture of a partition: boxes in layers, from the inputs down to the outputs.

Runs of operators without a branch become one box, so that a model of hundreds of operators fits a page.
Layers are longest paths; edges that skip layers go through points in between; the order within layers and the
positions come from the mean of a box's neighbours, swept up and down.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from delegatec.report.manifest import DelegateInfo, GraphNode, MethodInfo
from delegatec.report.sizes import human_bytes

_WIDTH: Final = 256
_LINE: Final = 16
_PADDING: Final = 12
_GAP_X: Final = 28
_GAP_Y: Final = 38
_WAYPOINT: Final = 14
_SWEEPS: Final = 8
# Kinds of operators that a box lists by name; the rest is counted.
_NAMED: Final = 4
# Characters of a line that fit a box.
_CHARACTERS: Final = 41


@dataclass
class Box:
    """A box of the picture, or a point that an edge goes through.

    Attributes:
        title: first line.
        lines: the others.
        kind: "input", "output", "operators", "delegate", or "waypoint".
        tooltip: what it stands for, at length.
        layer: its layer.
        x: left edge, in pixels.
        y: upper edge.
        width: in pixels.
        height: in pixels.
    """

    title: str
    lines: list[str]
    kind: str
    tooltip: str = ""
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    width: float = _WIDTH
    height: float = 0.0
    above: list[Box] = field(default_factory=list, repr=False)
    below: list[Box] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.kind == "waypoint":
            self.width = _WAYPOINT
        else:
            self.height = 2 * _PADDING + _LINE * (1 + len(self.lines)) - 4

    @property
    def center(self) -> float:
        """Middle, from the left."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class Picture:
    """A laid out picture.

    Attributes:
        width: in pixels.
        height: in pixels.
        boxes: what to draw, waypoints left out.
        edges: paths in the syntax of SVG.
    """

    width: float
    height: float
    boxes: list[Box]
    edges: list[str]


def draw_partition(method: MethodInfo) -> Picture:
    """Lays out the graph of a method."""
    boxes = _boxes(method)
    _assign_layers(boxes)
    layers = _with_waypoints(boxes)
    _order(layers)
    _place(layers)
    everything = [box for layer in layers for box in layer]
    left = min(box.x for box in everything)
    for box in everything:
        box.x -= left
    return Picture(
        width=max(box.x + box.width for box in everything),
        height=max(box.y + box.height for box in everything),
        boxes=[box for box in everything if box.kind != "waypoint"],
        edges=[_path(box, target) for box in everything for target in box.below],
    )


def short_name(operator: str) -> str:
    """An operator as a picture names it: "aten.add.Tensor" is "add"."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 and parts[0] in {"aten", "prims", "dim_order_ops"} else operator


def _boxes(method: MethodInfo) -> list[Box]:
    groups = _runs(method.graph)
    box_of: dict[int, Box] = {}
    source = Box("inputs", [_arguments([a.name for a in method.inputs])], "input")
    sink = Box("outputs", [_arguments([a.name for a in method.outputs])], "output")
    boxes = [source]
    for group in groups:
        box = _box([method.graph[i] for i in group], method.delegates)
        boxes.append(box)
        for index in group:
            box_of[index] = box
    for index, node in enumerate(method.graph):
        box = box_of[index]
        for other in node.inputs:
            _connect(box_of[other], box)
        if node.reads_input:
            _connect(source, box)
        if node.is_output:
            _connect(box, sink)
    return [*boxes, sink]


def _connect(above: Box, below: Box) -> None:
    if above is not below and below not in above.below:
        above.below.append(below)
        below.above.append(above)


def _runs(graph: tuple[GraphNode, ...]) -> list[list[int]]:
    """Longest runs of operators, each the only reader of the one before. A delegate stands alone."""
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
        return Box(f"{delegate.backend} · {delegate.name}", lines, "delegate", tooltip)
    tooltip = "\n".join(map(_with_place, nodes))
    if len(nodes) == 1:
        where = [f"{first.location.file.rpartition('/')[2]}:{first.location.line}"] if first.location else []
        return Box(short_name(first.operator), [_cut(text) for text in where], "operators", tooltip)
    counts = Counter(short_name(node.operator) for node in nodes)
    lines = [f"{name} \u00d7 {n}" if n > 1 else name for name, n in counts.items()]
    if len(lines) > _NAMED:
        lines = [*lines[: _NAMED - 1], f"and {len(lines) - _NAMED + 1} more kinds"]
    return Box(f"{len(nodes)} operators", [_cut(text) for text in lines], "operators", tooltip)


def _with_place(node: GraphNode) -> str:
    return f"{node.operator}  {node.location.file}:{node.location.line}" if node.location else node.operator


def _arguments(names: list[str]) -> str:
    return _cut(", ".join(names))


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


def _assign_layers(boxes: list[Box]) -> None:
    """Longest path from the top; what reads no input stands right above its first reader."""
    changed = True
    while changed:  # runs may stand before what they read, so one round may not do
        changed = False
        for box in boxes:
            layer = max((above.layer + 1 for above in box.above), default=0)
            if layer != box.layer:
                box.layer, changed = layer, True
    last = max(box.layer for box in boxes)
    for box in boxes:
        if box.kind == "output":
            box.layer = max(last, 1)
        elif not box.above and box.below and box.kind != "input":
            box.layer = min(below.layer for below in box.below) - 1


def _with_waypoints(boxes: list[Box]) -> list[list[Box]]:
    layers: list[list[Box]] = [[] for _ in range(max(box.layer for box in boxes) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    for box in boxes:
        lane: dict[int, Box] = {box.layer: box}  # shared by all edges of the box that skip layers
        for target in sorted(box.below, key=lambda below: below.layer):
            if target.layer <= box.layer + 1:
                continue
            box.below.remove(target)
            target.above.remove(box)
            for number in range(max(lane) + 1, target.layer):
                lane[number] = Box("", [], "waypoint", layer=number)
                layers[number].append(lane[number])
                _connect(lane[number - 1], lane[number])
            _connect(lane[target.layer - 1], target)
    return layers


def _order(layers: list[list[Box]]) -> None:
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        swept = layers if down else layers[::-1]
        for previous, layer in itertools.pairwise(swept):
            position = {id(box): i for i, box in enumerate(previous)}
            rank = {
                id(box): _mean([position[id(n)] for n in (box.above if down else box.below)], i)
                for i, box in enumerate(layer)
            }
            layer.sort(key=lambda box: rank[id(box)])


def _mean(values: list[int], default: float) -> float:
    return sum(values) / len(values) if values else default


def _place(layers: list[list[Box]]) -> None:
    y = 0.0
    for layer in layers:
        height = max(box.height for box in layer)
        x = -sum(box.width + _GAP_X for box in layer) / 2
        for box in layer:
            box.x, box.y = x, y
            if box.kind == "waypoint":
                box.height = height
            x += box.width + _GAP_X
        y += height + _GAP_Y
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _align(layer, down)


def _align(layer: list[Box], down: bool) -> None:
    """Moves boxes towards their neighbours; blocks of boxes that would overlap move as one."""
    blocks: list[tuple[list[Box], float]] = []  # boxes that touch, and the left edge that they want
    for box in layer:
        neighbours = (box.above if down else box.below) or (box.below if down else box.above)
        wanted = (
            sum(n.center for n in neighbours) / len(neighbours) if neighbours else box.center
        ) - box.width / 2
        blocks.append(([box], wanted))
        while len(blocks) > 1:
            (before, left), (block, right) = blocks[-2:]
            span = sum(other.width + _GAP_X for other in before)
            if left + span <= right:
                break
            share = len(before) / (len(before) + len(block))
            blocks[-2:] = [([*before, *block], left * share + (right - span) * (1 - share))]
    for block, left in blocks:
        for box in block:
            box.x = left
            left += box.width + _GAP_X


def _path(box: Box, target: Box) -> str:
    start, end = box.y + box.height, target.y
    middle = (start + end) / 2
    x, goal = box.center, target.center
    path = f"M{x:.1f} {start:.1f}C{x:.1f} {middle:.1f} {goal:.1f} {middle:.1f} {goal:.1f} {end:.1f}"
    return f"{path}V{end + target.height:.1f}" if target.kind == "waypoint" else path
