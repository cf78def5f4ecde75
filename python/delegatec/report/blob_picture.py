# SPDX-License-Identifier: Apache-2.0
"""The picture of a blob's graph: a drawing of the whole, and one of each part that is folded in it.

Small modules are frames inside of a drawing; how deep is the same all over it, as deep as few enough boxes
allow. A module beyond that is one box, and has a drawing of its own; what looks the same is drawn once.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from delegatec.delegation import BlobGraph, BlobLabels, BlobNode, Family, blob_headline, blob_notes
from delegatec.report.blob_boxes import Box, border_box, constant_bytes, folded_box, operation_box
from delegatec.report.blob_sections import Group, Item, Repetition, group_nodes, operations
from delegatec.report.layered import Cell, Edge, lay_out
from delegatec.report.sizes import human_bytes

# Boxes of one drawing, and of all drawings of a graph: a page of more is slow to open.
_BOXES: Final = 60
BOXES_SHOWN: Final = 2000
_DEEPEST: Final = 8
# Operations of a group that is better one box than a frame with boxes in it.
_WORTH: Final = 6
_PART: Final = "part "
# Space in a frame around what is in it, and above that for its title, in pixels.
_PADDING: Final = 10.0
_HEADER: Final = 14.0
# Where an edge meets a frame, and a character of a frame's title.
_PORT: Final = 8.0
_TITLE: Final = 6.5
_GAP_X: Final = 16.0
_GAP_Y: Final = 20.0


@dataclass(eq=False)
class Frame(Cell):
    """A module drawn inside of another one.

    Attributes:
        title: its name.
        tooltip: its path.
        inner: what is in it; its upper left corner is at `offset`.
        offset: from the frame's corner to that of `inner`.
        stubs: paths from its edges to the ports inside.
    """

    title: str = ""
    tooltip: str = ""
    inner: Picture | None = None
    offset: tuple[float, float] = (_PADDING, _HEADER)
    stubs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A drawing: size in pixels, edges as paths in the syntax of SVG, boxes, frames with drawings in them."""

    width: float
    height: float
    paths: tuple[str, ...]
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class Instance:
    """One of several groups of the same structure: path, its first operation, bytes of constants."""

    path: str
    first: str
    bytes: int


@dataclass
class Section:
    """A drawing with its title; for a repetition the drawing of the first, and a row for each.

    Attributes:
        title: path of the module, or what else it is.
        size: number of operations in it.
        picture: the drawing.
        instances: the groups of a repetition; empty for others.
        parts: sections of what is folded in it.
    """

    title: str
    size: int
    picture: Picture
    instances: tuple[Instance, ...] = ()
    parts: list[Section] = field(default_factory=list)


@dataclass(frozen=True)
class BlobPicture:
    """All drawings of a graph.

    Attributes:
        headline: title and totals.
        notes: on the whole.
        families: class of the style, name, number of operations, for each family that there is.
        whole: the drawing of the whole.
        left_out: operations that no drawing stands for.
        boxes: number of boxes of all drawings.
    """

    headline: str
    notes: tuple[str, ...]
    families: tuple[tuple[str, str, int], ...]
    whole: Section
    left_out: int
    boxes: int


def draw_blob(graph: BlobGraph, labels: BlobLabels, room: int = BOXES_SHOWN) -> BlobPicture:
    """Draws the graph of a blob.

    Args:
        graph: the graph.
        labels: what is known of it; the paths of modules make the groups.
        room: how many boxes are enough: no drawing is begun after that.
    """
    counts = Counter(node.family for node in graph.nodes)
    sections = _Sections(graph, labels, room)
    whole, left_out = sections.draw()
    return BlobPicture(
        headline=blob_headline(graph, human_bytes),
        notes=blob_notes(graph),
        families=tuple((f.name.lower(), f.value, counts[f]) for f in Family if counts[f]),
        whole=whole,
        left_out=left_out,
        boxes=sections.boxes,
    )


class _Sections:
    """Makes the drawings, the larger view first, until there are enough."""

    def __init__(self, graph: BlobGraph, labels: BlobLabels, room: int) -> None:
        self.boxes = 0
        self._graph = graph
        self._labels = labels
        self._room = room
        self._drawn: dict[int, str] = {}  # signature of a group -> the title under which it is drawn
        self._queue: list[tuple[Section, Group | Repetition]] = []
        self._unlike_others = itertools.count(-1, -1)

    def draw(self) -> tuple[Section, int]:
        """The section of the whole, and how many operations were left out."""
        items = group_nodes(self._graph, self._labels.modules)
        whole = self._section("", "", len(self._graph.nodes), items)
        left_out = 0
        for section, item in self._queue:  # it grows
            group = item.groups[0] if isinstance(item, Repetition) else item
            if self.boxes >= self._room:
                left_out += item.size
                continue
            part = self._section(_title(item), group.path, item.size, group.items)
            if isinstance(item, Repetition):
                part.instances = tuple(map(self._instance, item.groups))
            section.parts.append(part)
        return whole, left_out

    def _section(self, title: str, path: str, size: int, items: Sequence[Item]) -> Section:
        if len(items) > _BOXES:
            items = self._in_parts(items, path)
        depth = max(d for d in range(_DEEPEST) if d == 0 or _is_clear(items, d))
        folded: list[Group | Repetition] = []
        picture = _Drawing(self._graph, self._labels, path, self._fold(folded)).of(items, depth)
        # Besides the operations, what comes in and goes out has boxes.
        self.boxes += max(_count(items, depth), len(picture.boxes))
        section = Section(title, size, picture)
        self._queue += [(section, item) for item in folded]
        return section

    def _in_parts(self, items: Sequence[Item], path: str) -> list[Item]:
        """Items that are too many for a drawing, in equal runs."""
        count = min(_BOXES, math.ceil(len(items) / _BOXES))
        bounds = [len(items) * number // count for number in range(count + 1)]
        parts: list[Item] = []
        for number, (begin, end) in enumerate(itertools.pairwise(bounds), start=1):
            run = tuple(items[begin:end])
            size = sum(1 if isinstance(item, BlobNode) else item.size for item in run)
            parts.append(Group(path, f"{_PART}{number} of {count}", run, size, next(self._unlike_others)))
        return parts

    def _fold(self, folded: list[Group | Repetition]) -> Callable[[Group | Repetition], Box]:
        def fold(item: Group | Repetition) -> Box:
            signature = (item.groups[0] if isinstance(item, Repetition) else item).signature
            if signature in self._drawn:
                return folded_box(item, f", like {self._drawn[signature]}")
            self._drawn[signature] = _title(item)
            folded.append(item)
            return folded_box(item, "")

        return fold

    def _instance(self, group: Group) -> Instance:
        nodes = list(operations([group]))
        return Instance(group.path, str(nodes[0].identifier), constant_bytes(self._graph, nodes))


def _title(item: Group | Repetition) -> str:
    """What names an item on the whole page."""
    return item.name if item.name.startswith(_PART) else item.path


def _is_clear(items: Sequence[Item], depth: int) -> bool:
    """Whether a drawing has few enough boxes, and most of what is folded in it is worth folding."""
    folded = list(_folded(items, depth))
    small = sum(group.size < _WORTH for group in folded)
    return _count(items, depth) <= _BOXES and (2 * small < len(folded) or not folded)


def _folded(items: Sequence[Item], depth: int) -> Iterator[Group]:
    for item in items:
        if isinstance(item, Group):
            yield from _folded(item.items, depth - 1) if depth else (item,)


def _count(items: Sequence[Item], depth: int) -> int:
    """Boxes of a drawing whose frames are nested up to a depth."""
    return sum(_count(i.items, depth - 1) if isinstance(i, Group) and depth else 1 for i in items)


class _Drawing:
    """Lays out items and what is nested in them."""

    def __init__(
        self,
        graph: BlobGraph,
        labels: BlobLabels,
        path: str,
        fold: Callable[[Group | Repetition], Box],
    ) -> None:
        self._graph = graph
        self._labels = labels
        self._paths = [path]  # of the module that is drawn, and of frames in it
        self._fold = fold
        self._stored = set(graph.constants)
        self._given = set(graph.inputs)
        self._returned = set(graph.outputs)
        self._readers = Counter(id for node in graph.nodes for id in {id for _, id in node.reads})

    def of(self, items: Sequence[Item], depth: int) -> Picture:
        """A drawing that stands alone: what comes in and goes out has boxes that say of which type it is."""
        reads, gives = self._border(items)
        inputs = {
            id: border_box(self._graph, id, "input" if id in self._given else "", "input") for id in reads
        }
        outputs = {
            id: border_box(self._graph, id, "output" if id in self._returned else "", "output")
            for id in gives
        }
        return self._lay_out(items, depth, inputs, outputs)

    def _lay_out(
        self, items: Sequence[Item], depth: int, inputs: Mapping[int, Cell], outputs: Mapping[int, Cell]
    ) -> Picture:
        """Draws items between the cells of what comes in and of what goes out, by the values' ids."""
        cells: list[Cell] = list(inputs.values())
        edges: list[Edge] = []
        sources: dict[int, tuple[Cell, float | None]] = {id: (cell, None) for id, cell in inputs.items()}
        for item in items:
            reads, gives = self._border([item])
            cell, enters, leaves = self._cell(item, depth, reads, gives)
            cells.append(cell)
            for id in reads:
                if id in sources:  # a damaged graph may read what nothing gives
                    edges.append(Edge(sources[id][0], cell, sources[id][1], enters.get(id)))
            sources.update({id: (cell, leaves.get(id)) for id in gives})
        for id, cell in outputs.items():
            cells.append(cell)
            edges.append(Edge(sources[id][0], cell, sources[id][1]))
        if not cells:
            return Picture(0.0, 0.0, (), (), ())
        drawing = lay_out(cells, edges, _GAP_X, _GAP_Y)
        boxes = tuple(cell for cell in cells if isinstance(cell, Box))
        frames = tuple(cell for cell in cells if isinstance(cell, Frame))
        return Picture(drawing.width, drawing.height, drawing.paths, boxes, frames)

    def _cell(
        self, item: Item, depth: int, reads: Sequence[int], gives: Sequence[int]
    ) -> tuple[Cell, Mapping[int, float], Mapping[int, float]]:
        """The cell of an item, and where values enter and leave it if that is not the middle."""
        if isinstance(item, BlobNode):
            return operation_box(self._graph, self._labels, item, self._paths[-1]), {}, {}
        if isinstance(item, Repetition) or not depth:
            return self._fold(item), {}, {}
        inputs = {id: Cell(_PORT, pin=-1) for id in reads}
        outputs = {id: Cell(_PORT, pin=1) for id in gives}
        self._paths.append(item.path)
        inner = self._lay_out(item.items, depth - 1, inputs, outputs)
        self._paths.pop()
        width = max(inner.width, len(item.name) * _TITLE) + 2 * _PADDING
        left, bottom = (width - inner.width) / 2, _HEADER + inner.height
        enters = {id: left + cell.center for id, cell in inputs.items()}
        leaves = {id: left + cell.center for id, cell in outputs.items()}
        frame = Frame(
            width=width,
            height=bottom + _PADDING,
            title=item.name,
            tooltip=f"{item.path}: {item.size} operations",
            inner=inner,
            offset=(left, _HEADER),
            stubs=(
                *(f"M{x:.1f} 0V{_HEADER:.1f}" for x in enters.values()),
                *(f"M{x:.1f} {bottom:.1f}v{_PADDING:.1f}" for x in leaves.values()),
            ),
        )
        return frame, enters, leaves

    def _border(self, items: Sequence[Item]) -> tuple[list[int], list[int]]:
        """What items read of the others, and what they give to them, each once and in order."""
        reads: Counter[int] = Counter()
        gives: dict[int, None] = {}
        for node in operations(items):
            reads.update({id for _, id in node.reads if id not in self._stored and id >= 0})
            gives.update(dict.fromkeys(node.gives))
        return (
            [id for id in reads if id not in gives],
            [id for id in gives if id in self._returned or self._readers[id] > reads[id]],
        )
