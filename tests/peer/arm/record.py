# SPDX-License-Identifier: Apache-2.0
"""recorded.json: the outcomes of a campaign. The page is written from it, and a test repeats a part."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.peer.arm.ours import BEYOND, NONE, PARTLY, REFUSED, RIGHT, wanted

RECORDED: Final = Path(__file__).with_name("recorded.json")

SAMPLE: Final = "one in 20"
OTHERS: Final = "not as they should be with ours"

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Recorded:
    """The outcomes of a campaign.

    Attributes:
        every: kind -> one of this many cases was run in each module.
        counts: module -> kind -> status -> how many cases.
        others: case -> its kind, status and reason, if it is not as it should be.
        peer: which cases -> kind -> how many there are, how many we and how many the peer delegate as a
            whole, and Vela compiles.
    """

    every: dict[str, int]
    counts: dict[str, dict[str, dict[str, int]]]
    others: dict[str, tuple[str, str, str]]
    peer: dict[str, dict[str, tuple[int, int, int]]] = field(default_factory=dict)

    def status(self, name: str, kind: str) -> str:
        """Returns the status of a case that the campaign ran."""
        return self.others[name][1] if name in self.others else wanted(kind)

    def totals(self) -> dict[str, Counter[str]]:
        """Returns kind -> status -> how many cases."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for kinds in self.counts.values():
            for kind, statuses in kinds.items():
                found[kind].update(statuses)
        return found


def record(
    lines: Iterable[Mapping[str, Any]], every: Mapping[str, int], peer: dict[str, Any] | None = None
) -> Recorded:
    """Returns the outcomes of a campaign from its lines."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    others = {}
    for line in sorted(lines, key=lambda line: str(line["name"])):
        if not line["kind"]:
            continue
        counts[line["module"]][line["kind"]][line["status"]] += 1
        if line["status"] != wanted(line["kind"]):
            others[line["name"]] = (line["kind"], line["status"], short(line))
    plain = {
        module: {kind: dict(sorted(c.items())) for kind, c in sorted(kinds.items())}
        for module, kinds in sorted(counts.items())
    }
    return Recorded(dict(every), plain, others, peer or {})


def compare(lines: Mapping[str, Mapping[str, Any]], peer: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns `Recorded.peer` for the cases that both compilers ran, without those that torch rejects.

    Args:
        lines: our lines by name.
        peer: the peer's; "sample" is true in those that were not chosen by our outcome.
    """
    found: dict[str, dict[str, list[int]]] = {SAMPLE: {}, OTHERS: {}}
    for name, theirs in sorted(peer.items()):
        ours = lines.get(name)
        if ours is None or ours["status"] == NONE:
            continue
        is_ours, is_theirs = ours["status"] == RIGHT, theirs["status"] == "accepted"
        for key, chosen in ((SAMPLE, theirs["sample"]), (OTHERS, not is_ours)):
            if chosen:
                counts = found[key].setdefault(ours["kind"], [0, 0, 0])
                for index, number in enumerate((1, is_ours, is_theirs)):
                    counts[index] += number
    return found


def merged(old: Recorded, new: Recorded, kinds: Collection[str]) -> Recorded:
    """Returns outcomes with those of some kinds replaced."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for module in sorted({*old.counts, *new.counts}):
        kept = {kind: c for kind, c in old.counts.get(module, {}).items() if kind not in kinds}
        both = {**kept, **new.counts.get(module, {})}
        if both:
            counts[module] = dict(sorted(both.items()))
    others = {name: each for name, each in old.others.items() if each[0] not in kinds} | new.others
    return Recorded({**old.every, **new.every}, counts, dict(sorted(others.items())), new.peer or old.peer)


def updated(
    old: Recorded, lines: Iterable[Mapping[str, Any]], peer: dict[str, Any] | None = None
) -> Recorded:
    """Returns outcomes with those of single cases replaced, which were run again.

    Args:
        old: the outcomes of a campaign that ran these cases.
        lines: the last line of each.
        peer: replaces what is compared with the peer's compiler.
    """
    counts = {module: {kind: Counter(c) for kind, c in kinds.items()} for module, kinds in old.counts.items()}
    others = dict(old.others)
    for line in lines:
        name, kind = str(line["name"]), str(line["kind"])
        statuses = counts[line["module"]][kind]
        statuses[old.status(name, kind)] -= 1
        statuses[line["status"]] += 1
        others.pop(name, None)
        if line["status"] != wanted(kind):
            others[name] = (kind, line["status"], short(line))
    plain = {
        module: {kind: dict(sorted((+c).items())) for kind, c in kinds.items()}
        for module, kinds in counts.items()
    }
    return Recorded(old.every, plain, dict(sorted(others.items())), {**old.peer, **(peer or {})})


def short(line: Mapping[str, Any]) -> str:
    """Returns the first reason of a line, without what differs from case to case."""
    reason = str(line["reason"])
    if line["status"] == BEYOND:
        return reason
    if line["status"] in (REFUSED, PARTLY):
        reason = reason.partition("; ")[0]
    elif line["status"] == "wrong":
        reason = "beyond the tolerance"
    return _NUMBER.sub("N", reason)[:160].strip()


def write(recorded: Recorded, path: Path) -> None:
    """Writes outcomes to a file."""
    path.write_text(json.dumps(asdict(recorded), indent=1) + "\n", encoding="utf-8")


def read(path: Path = RECORDED) -> Recorded:
    """Reads outcomes from a file."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["others"] = {name: tuple(each) for name, each in fields["others"].items()}
    return Recorded(**fields)
