# SPDX-License-Identifier: Apache-2.0
"""Layered graph drawing: cells from top to bottom in the direction of edges.

Layers are longest paths; edges that skip layers pass through dummy cells, which the edges of one source
share, unless that takes too many; order within layers and positions follow the mean of a cell's neighbors, in
sweeps down and up. Time is linear in cells and edges, apart from sorting.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_WAYPOINT: Final = 14.0
_SWEEPS: Final = 8
# Dummy cells per cell, and for any drawing. Edges that would need more are drawn across other cells.
_DUMMIES: Final = 20
_SOME_DUMMIES: Final = 5000


@dataclass(eq=False, slots=True)
class Cell:
    """A box to place: an operation, a frame with a nested drawing, or a dummy on an edge.

    Attributes:
        width: in pixels.
        height: in pixels.
        pin: -1 for the first layer, 1 for the last layer, else 0.
        x: left edge, set by `lay_out`.
        y: upper edge, set by `lay_out`.
    """

    width: float = 0.0
    height: float = 0.0
    pin: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def center(self) -> float:
        """Horizontal center."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class Edge:
    """A downward edge.

    Attributes:
        source: the source cell.
        target: the target cell.
        leaves: x of its start on the source's lower edge, relative to the cell; None for the middle.
        enters: x of its end on the target's upper edge, likewise.
    """

    source: Cell
    target: Cell
    leaves: float | None = None
    enters: float | None = None


@dataclass(frozen=True)
class Drawing:
    """Size in pixels, and edges as SVG paths. Positions are in the cells."""

    width: float
    height: float
    paths: tuple[str, ...]


@dataclass(eq=False, slots=True)
class _Link:
    """An edge, or its segment between adjacent layers; offsets are relative to the cells."""

    upper: _Spot
    lower: _Spot
    leaves: float
    enters: float


@dataclass(eq=False, slots=True)
class _Spot:
    """A cell in its layer."""

    cell: Cell
    is_waypoint: bool = False
    layer: int = 0
    above: list[_Link] = field(default_factory=list)
    below: list[_Link] = field(default_factory=list)


# A spot and the start of its edges: they share dummies.
_Lane = tuple[int, float]


def lay_out(
    cells: Sequence[Cell], edges: Iterable[Edge], gap_x: float = 28.0, gap_y: float = 38.0
) -> Drawing:
    """Places cells, from (0, 0).

    Args:
        cells: all cells, at least one.
        edges: edges between them, without cycles.
        gap_x: horizontal gap in pixels.
        gap_y: gap between layers.
    """
    spots = {id(cell): _Spot(cell) for cell in cells}
    wanted = _unique(edges)
    _assign_layers(list(spots.values()), [(spots[id(e.source)], spots[id(e.target)]) for e in wanted])
    layers, crossing = _layers(spots, wanted)
    _order(layers)
    bottoms = _assign_positions(layers, gap_x, gap_y)
    everything = [spot.cell for layer in layers for spot in layer]
    left = min(cell.x for cell in everything)
    for cell in everything:
        cell.x -= left
    return Drawing(
        width=max(cell.x + cell.width for cell in everything),
        height=max(cell.y + cell.height for cell in everything),
        paths=tuple(
            _path(link, bottoms)
            for links in (*(spot.below for layer in layers for spot in layer), crossing)
            for link in links
        ),
    )


def _unique(edges: Iterable[Edge]) -> list[Edge]:
    return list(dict.fromkeys(edge for edge in edges if edge.source is not edge.target))


def _assign_layers(spots: list[_Spot], pairs: list[tuple[_Spot, _Spot]]) -> None:
    """Assigns longest-path layers; cells without predecessors are just above their first successor."""
    waiting = {id(spot): 0 for spot in spots}
    readers: dict[int, list[_Spot]] = {id(spot): [] for spot in spots}
    for upper, lower in pairs:
        waiting[id(lower)] += 1
        readers[id(upper)].append(lower)
    is_source = {key for key, count in waiting.items() if count == 0}
    has_first = any(spot.cell.pin < 0 for spot in spots)
    for spot in spots:
        spot.layer = 1 if has_first and spot.cell.pin >= 0 else 0
    ready = [spot for spot in spots if id(spot) in is_source]
    for spot in ready:
        for lower in readers[id(spot)]:
            lower.layer = max(lower.layer, spot.layer + 1)
            waiting[id(lower)] -= 1
            if waiting[id(lower)] == 0:
                ready.append(lower)
    last = max(spot.layer for spot in spots)
    free = [spot.layer for spot in spots if spot.cell.pin <= 0]
    for spot in spots:
        if spot.cell.pin > 0:
            spot.layer = max(last, max(free, default=0) + 1)
        elif spot.cell.pin == 0 and id(spot) in is_source and readers[id(spot)]:
            spot.layer = min(lower.layer for lower in readers[id(spot)]) - 1


def _layers(spots: dict[int, _Spot], edges: Sequence[Edge]) -> tuple[list[list[_Spot]], list[_Link]]:
    """Returns the layers, with dummies, and the edges that cross layers without them."""
    layers: list[list[_Spot]] = [[] for _ in range(max(spot.layer for spot in spots.values()) + 1)]
    for spot in spots.values():
        layers[spot.layer].append(spot)
    links = [
        _Link(
            spots[id(edge.source)],
            spots[id(edge.target)],
            edge.source.width / 2 if edge.leaves is None else edge.leaves,
            edge.target.width / 2 if edge.enters is None else edge.enters,
        )
        for edge in edges
    ]
    links.sort(key=lambda link: link.lower.layer)
    longest = {(id(link.upper), link.leaves): link.lower.layer - link.upper.layer for link in links}
    budget = _DUMMIES * len(spots) + _SOME_DUMMIES
    short = {key for key, total in _running_totals(longest) if total <= budget}
    lanes: dict[tuple[int, float], dict[int, _Spot]] = {}
    crossing = []
    for link in links:
        source, target, key = link.upper, link.lower, (id(link.upper), link.leaves)
        if key not in short and target.layer > source.layer + 1:
            crossing.append(link)
            continue
        lane = lanes.setdefault(key, {source.layer: source})
        for number in range(source.layer + 1, target.layer):
            if number not in lane:
                lane[number] = _Spot(Cell(_WAYPOINT), is_waypoint=True, layer=number)
                layers[number].append(lane[number])
                _connect(lane[number - 1], lane[number], link.leaves, _WAYPOINT / 2)
        _connect(lane[target.layer - 1], target, link.leaves, link.enters)
    return layers, crossing


def _running_totals(lengths: dict[_Lane, int]) -> Iterator[tuple[_Lane, int]]:
    """Yields keys from the shortest to the longest, with the sum of the lengths so far."""
    total = 0
    for key, length in sorted(lengths.items(), key=lambda item: item[1]):
        total += length
        yield key, total


def _connect(upper: _Spot, lower: _Spot, leaves: float, enters: float) -> None:
    link = _Link(upper, lower, _WAYPOINT / 2 if upper.is_waypoint else leaves, enters)
    upper.below.append(link)
    lower.above.append(link)


def _order(layers: list[list[_Spot]]) -> None:
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for previous, layer in itertools.pairwise(layers if down else layers[::-1]):
            position = {id(spot): i for i, spot in enumerate(previous)}
            rank = {id(spot): _rank(spot, position, down, i) for i, spot in enumerate(layer)}
            layer.sort(key=lambda spot: rank[id(spot)])


def _rank(spot: _Spot, position: dict[int, int], down: bool, default: int) -> float:
    """Returns the mean position of the neighbors; for wide ones, of the port."""
    if down:
        positions = [position[id(k.upper)] + k.leaves / max(k.upper.cell.width, 1.0) for k in spot.above]
    else:
        positions = [position[id(k.lower)] + k.enters / max(k.lower.cell.width, 1.0) for k in spot.below]
    return sum(positions) / len(positions) if positions else default + 0.5


def _assign_positions(layers: list[list[_Spot]], gap_x: float, gap_y: float) -> list[float]:
    """Sets x and y, and returns the lower edge of each layer."""
    y = 0.0
    bottoms = []
    for layer in layers:
        height = max(spot.cell.height for spot in layer)
        x = -sum(spot.cell.width + gap_x for spot in layer) / 2
        for spot in layer:
            spot.cell.x, spot.cell.y = x, y
            x += spot.cell.width + gap_x
        bottoms.append(y + height)
        y += height + gap_y
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _align(layer, down, gap_x)
    return bottoms


def _align(layer: list[_Spot], down: bool, gap: float) -> None:
    """Moves cells towards their neighbors; overlapping cells move as blocks."""
    blocks: list[tuple[int, float, float]] = []  # adjacent cells, their desired left edge, their span
    for spot in layer:
        blocks.append((1, _wanted(spot, down), spot.cell.width + gap))
        while len(blocks) > 1:
            (before, left, span), (count, right, rest) = blocks[-2:]
            if left + span <= right:
                break
            share = before / (before + count)
            blocks[-2:] = [(before + count, left * share + (right - span) * (1 - share), span + rest)]
    spots = iter(layer)
    for count, left, _ in blocks:
        for spot in itertools.islice(spots, count):
            spot.cell.x = left
            left += spot.cell.width + gap


def _wanted(spot: _Spot, down: bool) -> float:
    above = [k.upper.cell.x + k.leaves - k.enters for k in spot.above]
    below = [k.lower.cell.x + k.enters - k.leaves for k in spot.below]
    positions = (above or below) if down else (below or above)
    return sum(positions) / len(positions) if positions else spot.cell.x


def _path(link: _Link, bottoms: Sequence[float]) -> str:
    upper, lower = link.upper.cell, link.lower.cell
    x, goal = upper.x + link.leaves, lower.x + link.enters
    start, bottom, end = upper.y + upper.height, bottoms[link.upper.layer], lower.y
    middle = (bottom + end) / 2
    down = f"V{bottom:.1f}" if bottom > start else ""
    if abs(x - goal) < 0.05:
        return f"M{x:.1f} {start:.1f}V{end:.1f}"
    return f"M{x:.1f} {start:.1f}{down}C{x:.1f} {middle:.1f} {goal:.1f} {middle:.1f} {goal:.1f} {end:.1f}"
