# SPDX-License-Identifier: Apache-2.0
"""The frames of a flame chart: modules, below them their lines, and below these their operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from delegatec.profile.attribution import Cost, Origin, Profile
from delegatec.profile.views import BESIDES, UNKNOWN, costs_of, kind_of, line_of, origins_of

# Number of operators with separate colors; the others share the last one.
COLORS: Final = 7


@dataclass
class Frame:
    """A rectangle: its width is time.

    Attributes:
        name: what it shows.
        kind: "method", "module", "line", "operator" or "besides".
        title: its full name.
        left: where it begins, in nanoseconds.
        nanoseconds: its width.
        depth: its row, from the top.
        color: of an operator, from 0 to `COLORS`.
        kernels: what runs, for an operator: name -> nanoseconds.
    """

    name: str
    kind: str
    title: str
    left: float = 0.0
    nanoseconds: float = 0.0
    depth: int = 0
    color: int = COLORS
    kernels: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Flame:
    """A flame chart.

    Attributes:
        frames: parents before their children, in the order of the program.
        depth: number of rows.
        nanoseconds: of the first frame, which is as wide as the chart.
        operators: operators with their time, the most first: the color of each is its index.
    """

    frames: tuple[Frame, ...]
    depth: int
    nanoseconds: float
    operators: tuple[tuple[str, float], ...]


@dataclass
class _Node:
    frame: Frame
    children: dict[tuple[str, str], _Node] = field(default_factory=dict)


def flame_of(profile: Profile) -> Flame:
    """Returns the flame chart of a profile."""
    root = _Node(Frame(profile.method, "method", profile.method))
    times: dict[str, float] = defaultdict(float)
    for cost, besides in costs_of(profile):
        if not cost.nanoseconds:
            continue
        if besides:
            _add(root, [("besides", BESIDES, BESIDES)], cost.nanoseconds, cost)
            continue
        origins: Sequence[Origin | None] = origins_of(cost) or (None,)
        for origin in origins:
            share = cost.nanoseconds / len(origins)
            times[origin.operator if origin else UNKNOWN] += share
            _add(root, _path(origin), share, cost)
    operators = sorted(times.items(), key=lambda each: (-each[1], each[0]))
    colors = {name: min(index, COLORS) for index, (name, _) in enumerate(operators)}
    frames: list[Frame] = []
    _lay_out(root, 0.0, 0, colors, frames)
    depth = 1 + max(frame.depth for frame in frames)
    return Flame(tuple(frames), depth, root.frame.nanoseconds, tuple(operators))


def _path(origin: Origin | None) -> list[tuple[str, str, str]]:
    """Returns the frames of a node below the root: kind, name and title of each."""
    if origin is None:
        return [("operator", UNKNOWN, UNKNOWN)]
    parts = [part for part in origin.module.split(".") if part]
    path = [("module", part, ".".join(parts[: i + 1])) for i, part in enumerate(parts)]
    line = line_of(origin)
    lines = f"{line} \u203a {origin.via}" if origin.via else line
    path.append(("line", _short(origin.via or line), lines))
    return [*path, ("operator", origin.operator or UNKNOWN, origin.operator or UNKNOWN)]


def _short(line: str) -> str:
    """Returns a line for a narrow frame: its number, then the file without its directories."""
    file, _, number = line.rpartition("/")[2].rpartition(":")
    return f":{number} {file}" if file else line


def _add(root: _Node, path: list[tuple[str, str, str]], nanoseconds: float, cost: Cost) -> None:
    node = root
    node.frame.nanoseconds += nanoseconds
    for kind, name, title in path:
        node = node.children.setdefault((kind, title), _Node(Frame(name, kind, title)))
        node.frame.nanoseconds += nanoseconds
    if node.frame.kind == "operator":
        kernel = kind_of(cost)
        node.frame.kernels[kernel] = node.frame.kernels.get(kernel, 0.0) + nanoseconds


def _lay_out(node: _Node, left: float, depth: int, colors: dict[str, int], frames: list[Frame]) -> None:
    frame = node.frame
    while frame.kind == "module" and len(node.children) == 1:
        (child,) = node.children.values()
        if child.frame.kind != "module":
            break
        # a module with one part: both in one row
        child.frame.name = f"{frame.name}.{child.frame.name}"
        node, frame = child, child.frame
    frame.left, frame.depth = left, depth
    if frame.kind == "operator":
        frame.color = colors[frame.title]
    frames.append(frame)
    for child in node.children.values():
        _lay_out(child, left, depth + 1, colors, frames)
        left += child.frame.nanoseconds
