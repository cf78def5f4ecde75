# SPDX-License-Identifier: Apache-2.0
"""Layout of the curve of a search: layers in float to the right, the loss upwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.samples.search import Search, SearchPoint

_WIDTH: Final = 960.0
_HEIGHT: Final = 240.0
_MARGIN: Final = 12.0


@dataclass(frozen=True)
class CurvePoint:
    """A measured choice at a position in pixels, with its loss."""

    x: float
    y: float
    loss: float
    point: SearchPoint


@dataclass(frozen=True)
class SearchPicture:
    """A drawing of a search.

    Attributes:
        width: in pixels.
        height: in pixels.
        points: the choices, from left to right.
        path: the curve through those that no other one with as few layers in float is better than, in SVG.
        limit_y: position of the limit of the loss.
    """

    width: float
    height: float
    points: list[CurvePoint]
    path: str
    limit_y: float


def draw_search(search: Search) -> SearchPicture:
    """Lays out the curve of a search."""
    losses = [search.baseline - point.value for point in search.points]
    most = max(*losses, search.maximum_loss, 0.0) or 1.0
    least = min(*losses, 0.0)
    across = (_WIDTH - 2 * _MARGIN) / max(search.layers, 1)
    upward = (_HEIGHT - 2 * _MARGIN) / (most - least)

    def y(loss: float) -> float:
        return _HEIGHT - _MARGIN - (loss - least) * upward

    points = [
        CurvePoint(_MARGIN + point.float_layers * across, y(loss), loss, point)
        for point, loss in zip(search.points, losses, strict=True)
    ]
    best: dict[float, CurvePoint] = {}
    for each in points:
        if each.x not in best or each.loss < best[each.x].loss:
            best[each.x] = each
    steps = " ".join(f"{each.x:.1f},{each.y:.1f}" for each in best.values())
    return SearchPicture(_WIDTH, _HEIGHT, points, f"M{steps}", y(search.maximum_loss))
