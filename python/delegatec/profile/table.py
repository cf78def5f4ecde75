# SPDX-License-Identifier: Apache-2.0
"""Profiles as text and JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from delegatec.profile.attribution import Cost, Profile

_Origin = Mapping[str, Any]
_UNKNOWN: Final = "(unknown)"
_BESIDES: Final = "(calls of delegates, besides their operations)"


def _kind(cost: Cost) -> str:
    """Returns what runs: events of XNNPACK have ordinals of their kind."""
    return re.sub(r" #\d+$", "", cost.operation) or cost.calls


_KEYS: Final[Mapping[str, Callable[[Cost, _Origin], str]]] = {
    "kernel": lambda cost, origin: _kind(cost),
    "line": lambda cost, origin: origin["source"] or _UNKNOWN,
    "module": lambda cost, origin: origin["module"] or "(the model itself)",
    "operator": lambda cost, origin: origin["operator"] or _UNKNOWN,
}
VIEWS: Final = ("line", "module", "operator", "kernel", "step")


def format_profile(profile: Profile, by: str) -> str:
    """Returns a table of what takes time, the most first, with a final newline.

    Args:
        profile: the profile.
        by: one of `VIEWS`: what the rows are.
    """
    rows = _steps(profile) if by == "step" else _grouped(profile, by)
    total = sum(row[0] for row in rows) or 1
    lines = [
        f"method {profile.method}: {_milliseconds(profile.nanoseconds)} ms a run, the median of"
        f" {profile.counted} of {profile.runs} runs",
        "",
        f"  {'ms':>9}  {'%':>5}  {'calls':>5}  {by}",
    ]
    lines += [
        f"  {_milliseconds(time):>9}  {100 * time / total:5.1f}  {count:>5}  {name}"
        for time, count, name in rows
    ]
    return "\n".join(lines) + "\n"


def profile_json(profile: Profile) -> str:
    """Returns a profile as JSON."""
    return json.dumps(dataclasses.asdict(profile), indent=1) + "\n"


def _milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3f}"


def _steps(profile: Profile) -> list[tuple[float, int, str]]:
    rows = []
    for cost in profile.costs:
        nodes = ", ".join(dict.fromkeys(origin["node"] for origin in cost.origins))
        name = f"{cost.instruction} {cost.calls} {cost.operation}".rstrip()
        if cost.operation or cost.origins:
            name += f": {nodes}"
        rows.append((cost.nanoseconds, cost.count, name))
    return rows


def _grouped(profile: Profile, by: str) -> list[tuple[float, int, str]]:
    times: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    with_operations = {cost.instruction for cost in profile.costs if cost.operation}
    for cost in profile.costs:
        for name, share in _shares(cost, by, with_operations).items():
            times[name] += cost.nanoseconds * share
            counts[name] += cost.count
    return sorted(((times[name], counts[name], name) for name in times), key=lambda row: (-row[0], row[2]))


def _shares(cost: Cost, by: str, with_operations: set[int]) -> Mapping[str, float]:
    """Returns the share of each row in a cost: nodes that were fused share it equally."""
    if not cost.operation and cost.instruction in with_operations:
        return {_BESIDES: 1.0}
    names: Sequence[str] = [_KEYS[by](cost, origin) for origin in cost.origins]
    if by == "kernel":
        names = [_kind(cost)]
    shares: dict[str, float] = defaultdict(float)
    for name in names or [_UNKNOWN]:
        shares[name] += 1 / len(names or [_UNKNOWN])
    return shares
