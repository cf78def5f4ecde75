# SPDX-License-Identifier: Apache-2.0
"""One drawing of a blob's graph: boxes of operations, and frames of modules with drawings in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.delegation import BlobGraph, BlobLabels, BlobNode
from delegatec.report.blob_boxes import Box, border_box, operation_box
from delegatec.report.blob_sections import Group, Item, Repetition, operations
from delegatec.report.layered import Cell, Edge, lay_out

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


class Drawing:
    """Lays out items and what is nested in them.

    Args:
        graph: the graph.
        labels: what is known of it.
        path: of the module that is drawn; empty for the whole.
        fold: gives the box of what is not drawn here.
    """

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
