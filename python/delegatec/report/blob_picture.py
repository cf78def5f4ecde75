# SPDX-License-Identifier: Apache-2.0
"""The picture of a blob's graph: a drawing of the whole, and one of each part that is folded in it.

Small modules are frames inside of a drawing; how deep is the same all over it, as deep as few enough boxes
allow. A module beyond that is one box, and has a drawing of its own; what looks the same is drawn once.
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

# Boxes of one drawing, and of all drawings of a graph: a page of more is slow to open.
_BOXES: Final = 60
BOXES_SHOWN: Final = 2000
_DEEPEST: Final = 8
# Operations of a group that is better one box than a frame with boxes in it.
_WORTH: Final = 6
_PART: Final = "part "


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
        picture = Drawing(self._graph, self._labels, path, self._fold(folded)).of(items, depth)
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
