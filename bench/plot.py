# SPDX-License-Identifier: Apache-2.0
"""The outcomes of trials as an SVG plot: two bars per pair, for CPU time and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from tables import Trials
from trial import TOOLS, Outcome

_ROW, _BAR, _TOP = 34, 12, 64
_LABELS, _PANEL, _GAP = 190, 380, 90
_COLORS: Final = {"peer": "#c2714f", "ours": "#2f6f8f"}


@dataclass(frozen=True)
class _Panel:
    """One column of bars on a logarithmic scale.

    Attributes:
        title: the quantity.
        value: function from an outcome to the quantity.
        least: start of the scale; smaller values do not have a bar.
        decades: number of powers of ten on the scale.
        text: function from an outcome to the label of its bar.
    """

    title: str
    value: Callable[[Outcome], float]
    least: float
    decades: int
    text: Callable[[float], str]

    def length(self, value: float) -> float:
        """Returns the length of a bar in pixels."""
        return max(0.0, math.log10(max(value, self.least) / self.least)) / self.decades * _PANEL


_PANELS: Final = (
    _Panel("lowering, CPU seconds", lambda o: o.lowering, 0.01, 4, lambda v: f"{v:.2f}"),
    _Panel(
        "memory above the loaded model / its weights",
        lambda o: o.memory / o.weights,
        0.001,
        4,
        lambda v: f"{v:.2f}",
    ),
)


def plot(trials: Trials) -> str:
    """Returns the plot."""
    width = _LABELS + len(_PANELS) * (_PANEL + _GAP)
    height = _TOP + _ROW * len(trials) + 10
    style = "text{font:12px sans-serif;fill:#222}.n{font-size:11px}.g{stroke:#ddd}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        f'<style>{style}</style><rect width="{width}" height="{height}" fill="#fff"/>',
        *_legend(),
        *(line for index, panel in enumerate(_PANELS) for line in _panel(index, panel, trials, height)),
    ]
    for row, (model, backend) in enumerate(trials):
        lines.append(_text(_LABELS - 8, _TOP + _ROW * row + 17, f"{model}, {backend}", "end"))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend() -> Iterator[str]:
    for index, tool in enumerate(TOOLS):
        x = 12 + 70 * index
        yield f'<rect x="{x}" y="14" width="12" height="12" fill="{_COLORS[tool]}"/>'
        yield _text(x + 17, 24, tool)


def _panel(index: int, panel: _Panel, trials: Trials, height: int) -> Iterator[str]:
    left = _LABELS + index * (_PANEL + _GAP)
    yield _text(left, 24, panel.title)
    for decade in range(panel.decades + 1):
        x = left + _PANEL * decade / panel.decades
        yield f'<line class="g" x1="{x:.0f}" y1="{_TOP - 8}" x2="{x:.0f}" y2="{height - 8}"/>'
        yield _text(x, _TOP - 14, f"{panel.least * 10**decade:g}", "middle", "n")
    for row, pair in enumerate(trials.values()):
        for bar, tool in enumerate(TOOLS):
            y = _TOP + _ROW * row + bar * (_BAR + 1)
            if pair[tool].error:
                yield _text(left + 4, y + 10, "fails", "start", "n")
                continue
            value = panel.value(pair[tool])
            size = panel.length(value)
            yield (f'<rect x="{left}" y="{y}" width="{size:.1f}" height="{_BAR}" fill="{_COLORS[tool]}"/>')
            yield _text(left + size + 4, y + 10, panel.text(value), "start", "n")


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'
