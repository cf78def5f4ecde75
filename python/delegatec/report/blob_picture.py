# SPDX-License-Identifier: Apache-2.0
"""Drawings of a blob's graph: one of the whole, and one of each collapsed part.

Small modules are frames inside a drawing, nested to the largest depth that keeps the number of boxes low.
Deeper modules are single boxes, with separate drawings; equal structures are drawn once.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from delegatec.delegation import BlobGraph, BlobLabels, BlobNode, Family, blob_headline, blob_notes
from delegatec.report.blob_boxes import Box, constant_bytes, folded_box
from delegatec.report.blob_drawing import Drawing, Picture
from delegatec.report.blob_sections import Group, Item, Repetition, group_nodes, operations
from delegatec.report.sizes import human_bytes

# Maximum number of boxes in a drawing, and in all drawings of a graph: larger pages open slowly.
_BOXES: Final = 60
BOXES_SHOWN: Final = 2000
_DEEPEST: Final = 8
# Groups of up to this many operations are better as one box than as a frame.
_WORTH: Final = 6
_PART: Final = "part "


@dataclass(frozen=True)
class Instance:
    """A group in a repetition: path, its first operation, bytes of constants."""

    path: str
    first: str
    bytes: int


@dataclass
class Section:
    """A drawing with its title; for a repetition, the drawing of the first group, and a row for each.

    Attributes:
        title: path of the module, or another title.
        size: number of operations.
        picture: the drawing.
        instances: the groups of a repetition; else empty.
        parts: sections of its collapsed parts.
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
        notes: notes on the whole.
        families: CSS class, name and number of operations of each family in the graph.
        whole: the drawing of the whole.
        omitted: number of operations without a drawing.
        boxes: number of boxes of all drawings.
        bodies: name and drawings of each graph that operations of this one run.
    """

    headline: str
    notes: tuple[str, ...]
    families: tuple[tuple[str, str, int], ...]
    whole: Section
    omitted: int
    boxes: int
    bodies: tuple[tuple[str, BlobPicture], ...] = ()


def draw_blob(graph: BlobGraph, labels: BlobLabels, max_boxes: int = BOXES_SHOWN) -> BlobPicture:
    """Draws the graph of a blob.

    Args:
        graph: the graph.
        labels: the graph's labels; the paths of modules define the groups.
        max_boxes: limit of boxes: no drawing is started beyond it.
    """
    counts = Counter(node.family for part in graph.walk() for node in part.nodes)
    sections = _Sections(graph, labels, max_boxes)
    whole, omitted = sections.draw()
    bodies: list[tuple[str, BlobPicture]] = []
    total = sections.boxes
    for name, body in graph.bodies.items():
        if total < max_boxes:
            bodies.append((name, draw_blob(body, labels, max_boxes - total)))
            total += bodies[-1][1].boxes
        else:
            omitted += len(body.nodes)
    return BlobPicture(
        headline=blob_headline(graph, human_bytes),
        notes=blob_notes(graph),
        families=tuple((f.name.lower(), f.value, counts[f]) for f in Family if counts[f]),
        whole=whole,
        omitted=omitted,
        boxes=total,
        bodies=tuple(bodies),
    )


class _Sections:
    """Creates drawings, outer ones first, up to the limit."""

    def __init__(self, graph: BlobGraph, labels: BlobLabels, max_boxes: int) -> None:
        self.boxes = 0
        self._graph = graph
        self._labels = labels
        self._max_boxes = max_boxes
        self._drawn: dict[int, str] = {}  # signature of a group -> the title of its drawing
        self._queue: list[tuple[Section, Group | Repetition]] = []
        self._unlike_others = itertools.count(-1, -1)

    def draw(self) -> tuple[Section, int]:
        """Returns the section of the whole, and the number of omitted operations."""
        items = group_nodes(self._graph, self._labels.modules)
        whole = self._section("", "", len(self._graph.nodes), items)
        omitted = 0
        for section, item in self._queue:  # grows in the loop
            group = item.groups[0] if isinstance(item, Repetition) else item
            if self.boxes >= self._max_boxes:
                omitted += item.size
                continue
            part = self._section(_title(item), group.path, item.size, group.items)
            if isinstance(item, Repetition):
                part.instances = tuple(map(self._instance, item.groups))
            section.parts.append(part)
        return whole, omitted

    def _section(self, title: str, path: str, size: int, items: Sequence[Item]) -> Section:
        if len(items) > _BOXES:
            items = self._in_parts(items, path)
        depth = max(d for d in range(_DEEPEST) if d == 0 or _is_clear(items, d))
        folded: list[Group | Repetition] = []
        picture = Drawing(self._graph, self._labels, path, self._fold(folded)).of(items, depth)
        # Inputs and outputs have boxes, too.
        self.boxes += max(_count(items, depth), len(picture.boxes))
        section = Section(title, size, picture)
        self._queue += [(section, item) for item in folded]
        return section

    def _in_parts(self, items: Sequence[Item], path: str) -> list[Item]:
        """Splits items that are too many for a drawing into equal runs."""
        count = min(_BOXES, math.ceil(len(items) / _BOXES))
        bounds = [len(items) * index // count for index in range(count + 1)]
        parts: list[Item] = []
        for index, (begin, end) in enumerate(itertools.pairwise(bounds), start=1):
            run = tuple(items[begin:end])
            size = sum(1 if isinstance(item, BlobNode) else item.size for item in run)
            parts.append(Group(path, f"{_PART}{index} of {count}", run, size, next(self._unlike_others)))
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
    """Returns a title that is unique on the page."""
    return item.name if item.name.startswith(_PART) else item.path


def _is_clear(items: Sequence[Item], depth: int) -> bool:
    """Whether a drawing has few enough boxes, and most of its collapsed groups are large."""
    folded = list(_folded(items, depth))
    small = sum(group.size < _WORTH for group in folded)
    return _count(items, depth) <= _BOXES and (2 * small < len(folded) or not folded)


def _folded(items: Sequence[Item], depth: int) -> Iterator[Group]:
    for item in items:
        if isinstance(item, Group):
            yield from _folded(item.items, depth - 1) if depth else (item,)


def _count(items: Sequence[Item], depth: int) -> int:
    """Counts the boxes of a drawing with frames nested up to a depth."""
    return sum(_count(i.items, depth - 1) if isinstance(i, Group) and depth else 1 for i in items)
