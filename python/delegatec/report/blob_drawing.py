# SPDX-License-Identifier: Apache-2.0
"""A drawing of a blob's graph: boxes of operations, and frames of modules with nested drawings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.delegation import BlobGraph, BlobLabels, BlobNode
from delegatec.report.blob_boxes import Box, border_box, operation_box
from delegatec.report.blob_sections import Group, Item, Repetition, operations
from delegatec.report.layered import Cell, Edge, lay_out

# Padding of a frame, and height of its title, in pixels.
_PADDING: Final = 10.0
_HEADER: Final = 14.0
# Radius of ports on frames, and width of a character in a frame's title.
_PORT: Final = 8.0
_TITLE: Final = 6.5
_GAP_X: Final = 16.0
_GAP_Y: Final = 20.0


@dataclass(eq=False)
class Frame(Cell):
    """A module drawn inside another one.

    Attributes:
        title: its name.
        tooltip: its path.
        inner: the nested drawing, whose upper left corner is at `offset`.
        offset: from the frame's corner to that of `inner`.
        stubs: paths from the frame's edges to the ports inside.
    """

    title: str = ""
    tooltip: str = ""
    inner: Picture | None = None
    offset: tuple[float, float] = (_PADDING, _HEADER)
    stubs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A drawing: size in pixels, edges as SVG paths, boxes, and frames with nested drawings."""

    width: float
    height: float
    paths: tuple[str, ...]
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]


class Drawing:
    """Lays out items and their nested items.

    Args:
        graph: the graph.
        labels: the graph's labels.
        path: path of the drawn module; empty for the whole.
        fold: returns the box of a group that is drawn separately.
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
        self._paths = [path]  # paths of the drawn module, and of frames in it
        self._fold = fold
        self._stored = set(graph.constants)
        self._given = set(graph.inputs)
        self._returned = set(graph.outputs)
        self._readers = Counter(id for node in graph.nodes for id in {id for _, id in node.operands})

    def of(self, items: Sequence[Item], depth: int) -> Picture:
        """Returns a standalone drawing, with boxes for the types of inputs and outputs."""
        operands, results = self._border(items)
        inputs = {
            id: border_box(self._graph, id, "input" if id in self._given else "", "input") for id in operands
        }
        outputs = {
            id: border_box(self._graph, id, "output" if id in self._returned else "", "output")
            for id in results
        }
        return self._lay_out(items, depth, inputs, outputs)

    def _lay_out(
        self, items: Sequence[Item], depth: int, inputs: Mapping[int, Cell], outputs: Mapping[int, Cell]
    ) -> Picture:
        """Lays out items between the cells of inputs and outputs, by value ids."""
        cells: list[Cell] = list(inputs.values())
        edges: list[Edge] = []
        sources: dict[int, tuple[Cell, float | None]] = {id: (cell, None) for id, cell in inputs.items()}
        for item in items:
            operands, results = self._border([item])
            cell, enters, leaves = self._cell(item, depth, operands, results)
            cells.append(cell)
            for id in operands:
                if id in sources:  # a damaged graph may read undefined values
                    edges.append(Edge(sources[id][0], cell, sources[id][1], enters.get(id)))
            sources.update({id: (cell, leaves.get(id)) for id in results})
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
        self, item: Item, depth: int, operands: Sequence[int], results: Sequence[int]
    ) -> tuple[Cell, Mapping[int, float], Mapping[int, float]]:
        """Returns the cell of an item, and the ports of values that are not in the middle."""
        if isinstance(item, BlobNode):
            return operation_box(self._graph, self._labels, item, self._paths[-1]), {}, {}
        if isinstance(item, Repetition) or not depth:
            return self._fold(item), {}, {}
        inputs = {id: Cell(_PORT, pin=-1) for id in operands}
        outputs = {id: Cell(_PORT, pin=1) for id in results}
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
        """Returns the inputs and outputs of items, without duplicates, in order."""
        operands: Counter[int] = Counter()
        results: dict[int, None] = {}
        for node in operations(items):
            operands.update({id for _, id in node.operands if id not in self._stored and id >= 0})
            results.update(dict.fromkeys(node.results))
        return (
            [id for id in operands if id not in results],
            [id for id in results if id in self._returned or self._readers[id] > operands[id]],
        )
