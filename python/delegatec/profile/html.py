# SPDX-License-Identifier: Apache-2.0
"""A profile as a self-contained HTML file, in the style of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from delegatec.profile.attribution import Profile
from delegatec.profile.flame import COLORS, Frame, flame_of
from delegatec.profile.ratio import Ratio
from delegatec.profile.table import difference, differences, milliseconds
from delegatec.profile.views import BESIDES, UNKNOWN, Row, costs_of, rows_of, total_of
from delegatec.report.environment import template

ROWS_SHOWN: Final = 25
"""Number of rows of a table that are open."""
_VIEWS: Final[Mapping[str, str]] = {
    "line": "Lines of the model",
    "library": "Lines of libraries",
    "operator": "Operators",
    "kernel": "What runs",
    "module": "Modules",
}


def profile_html(
    profile: Profile,
    title: str,
    baseline: Profile | None = None,
    ratio: Ratio | None = None,
    baseline_title: str = "",
) -> str:
    """Renders a profile.

    Args:
        profile: the profile.
        title: the program.
        baseline: a profile to compare with, if there is one.
        ratio: of the two.
        baseline_title: the baseline's program.
    """
    return template("profile.html.jinja", "delegatec.profile").render(
        profile=profile,
        title=title,
        baseline=baseline,
        baseline_title=baseline_title,
        ratio=ratio,
        flame=flame_of(profile),
        colors=COLORS,
        shares=_shares(profile),
        total=total_of(profile),
        tables=_tables(profile, baseline),
        shown=ROWS_SHOWN,
        ms=milliseconds,
        of=_percent,
        tooltip=_tooltip(profile),
    )


def _shares(profile: Profile) -> dict[str, float]:
    """Returns the time in operations of delegates, in calls of delegates besides these, and in kernels."""
    times = {"operations": 0.0, "besides": 0.0, "kernels": 0.0}
    for cost, besides in costs_of(profile):
        kind = "operations" if cost.operation else "besides" if besides else "kernels"
        times[kind] += cost.nanoseconds
    return times


def _tables(profile: Profile, baseline: Profile | None) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Returns view, title and rows of each table. Views that only repeat another one are left out."""
    found: list[tuple[str, str, list[dict[str, Any]]]] = []
    for by, title in _VIEWS.items():
        rows = _rows(profile, baseline, by)
        if by == "library" and {row["name"] for row in rows} == {row["name"] for row in found[0][2]}:
            continue
        if all(row["name"] in (BESIDES, UNKNOWN) for row in rows):
            continue
        found.append((by, title, rows))
    return found


def _rows(profile: Profile, baseline: Profile | None, by: str) -> list[dict[str, Any]]:
    if baseline is None:
        pairs: list[tuple[str, Row | None, Row | None]] = [
            (row.name, row, None) for row in rows_of(profile, by)
        ]
    else:
        pairs = differences(profile, baseline, by)
    return [
        {
            "name": name,
            "nanoseconds": mine.nanoseconds if mine else None,
            "count": mine.count if mine else 0,
            "before": other.nanoseconds if other else None,
            "change": difference(mine, other),
        }
        for name, mine, other in pairs
    ]


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _tooltip(profile: Profile) -> Callable[[Frame], str]:
    total = total_of(profile)

    def tooltip(frame: Frame) -> str:
        lines = [frame.title, f"{milliseconds(frame.nanoseconds)} ms, {_percent(frame.nanoseconds, total)}"]
        kernels = sorted(frame.kernels.items(), key=lambda each: (-each[1], each[0]))
        lines += [f"{milliseconds(time)} ms in {kernel}" for kernel, time in kernels]
        return "\n".join(lines)

    return tooltip
