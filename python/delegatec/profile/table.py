# SPDX-License-Identifier: Apache-2.0
"""Profiles as text."""

from __future__ import annotations

from delegatec.profile.attribution import Profile
from delegatec.profile.ratio import Ratio, describe
from delegatec.profile.views import Row, rows_of, total_of


def format_profile(profile: Profile, by: str) -> str:
    """Returns a table of what takes time, the most first, with a final newline.

    Args:
        profile: the profile.
        by: one of `VIEWS`: what the rows are.
    """
    total = total_of(profile) or 1
    lines = [
        f"method {profile.method}: {_runs(profile)}",
        "",
        f"  {'ms':>9}  {'%':>5}  {'calls':>5}  {by}",
    ]
    lines += [
        f"  {milliseconds(row.nanoseconds):>9}  {100 * row.nanoseconds / total:5.1f}"
        f"  {row.count:>5}  {row.name}"
        for row in rows_of(profile, by)
    ]
    return "\n".join(lines) + "\n"


def format_comparison(profile: Profile, baseline: Profile, ratio: Ratio, by: str) -> str:
    """Returns a table of what takes more or less time, the largest differences first.

    Args:
        profile: the profile.
        baseline: the one to compare with.
        ratio: of the two.
        by: one of `VIEWS`.
    """
    lines = [
        f"method {profile.method}: {_runs(profile)}",
        f"baseline: {_runs(baseline)}",
        f"ratio: {describe(ratio)}",
        "",
        f"  {'ms':>9}  {'baseline':>9}  {'change':>9}  {by}",
    ]
    lines += [
        f"  {_or_none(mine):>9}  {_or_none(other):>9}  {difference(mine, other) / 1e6:>+9.3f}  {name}"
        for name, mine, other in differences(profile, baseline, by)
    ]
    return "\n".join(lines) + "\n"


def differences(profile: Profile, baseline: Profile, by: str) -> list[tuple[str, Row | None, Row | None]]:
    """Returns the rows of two profiles: name, and the row of each that has one; the largest change first.

    Args:
        profile: the profile.
        baseline: the one to compare with.
        by: one of `VIEWS`.
    """
    mine, other = ({row.name: row for row in rows_of(each, by)} for each in (profile, baseline))
    pairs = [(name, mine.get(name), other.get(name)) for name in dict.fromkeys([*mine, *other])]
    return sorted(pairs, key=lambda pair: (-abs(difference(pair[1], pair[2])), pair[0]))


def difference(row: Row | None, other: Row | None) -> float:
    """Returns how much more time one row takes than another, in nanoseconds."""
    return (row.nanoseconds if row else 0) - (other.nanoseconds if other else 0)


def milliseconds(nanoseconds: float) -> str:
    """Returns a time in milliseconds, with three decimals."""
    return f"{nanoseconds / 1e6:.3f}"


def _or_none(row: Row | None) -> str:
    return milliseconds(row.nanoseconds) if row else "-"


def _runs(profile: Profile) -> str:
    return (
        f"{milliseconds(profile.nanoseconds)} ms a run, the median of {profile.counted} of {profile.runs}"
        f" runs; {milliseconds(total_of(profile))} ms in the rows"
    )
