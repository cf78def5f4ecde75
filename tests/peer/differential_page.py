# SPDX-License-Identifier: Apache-2.0
"""docs/mps_differential.md: written from measurements, and read by the test that repeats them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peer.classes import CLASSES, classify, reason_of
from tests.peer.defects import DEFECTS
from tests.peer.differential import FAILS, PRECISIONS, STOPS, Comparison, Counts, Side, compare
from tests.peer.suite import peer_tests, record

_LEGEND: Final = """\
Every module in ExecuTorch's tests of its MPS delegate, including skipped ones, lowered by its compiler and
by ours. The reference executor, which rejects blobs that the runtime rejects, runs both blobs from their
bytes alone; other operators run in eager mode. The results are compared with the model in eager mode (for
fp16, also in half precision). Operations on constants only are folded in both before they are counted.

- `delegates + left`: number of delegates, and of operators that are not delegated.
- operations: those that compute, the number of those that only move data, and the number of casts, including
  those of inputs and outputs with fp16.
- result: `right` as in eager mode, `wrong`, `stops` if the runtime would abort, `fails` if the compiler does.
- A case with one row has the same results in both precisions.
"""

_DEFECTS_LEGEND: Final = """\
Calls of the peer's operators with wrong results in its blobs. The report of ours has a reason for every
operator that is not delegated. Blobs of the peer also depend on earlier compilations in the process."""

Row = tuple[str, ...]


def rows_of(name: str, comparisons: Mapping[str, Comparison] | None) -> dict[str, Row]:
    """The rows of a case: name, with the precision if they differ -> the other cells."""
    if comparisons is None:
        return {name: ("", "", "", "", "", "", "no case", "torch rejects it")}
    cells = {precision: _cells(comparisons[precision]) for precision in PRECISIONS}
    if len(set(cells.values())) == 1:
        return {name: cells[PRECISIONS[0]]}
    return {f"{name} ({precision})": cells[precision] for precision in PRECISIONS}


def _cells(comparison: Comparison) -> Row:
    verdict = classify(comparison)
    return (*_side(comparison.peer), *_side(comparison.ours), verdict.kind, str(verdict))


def _side(side: Side) -> Row:
    if side.result == FAILS:
        return ("", "", FAILS)
    return (f"{side.delegates} + {len(side.left)}", _operations(side), side.result)


def _operations(side: Side) -> str:
    if side.compute is None or side.moves is None:
        return "unreadable"
    moves = sum((side.moves - Counter(Cast=side.moves["Cast"])).values())
    parts = [listed(side.compute), f"{moves} moves" if moves else "", f"{side.moves['Cast']} casts"]
    return ", ".join(part for part in parts[: 3 if side.moves["Cast"] else 2] if part)


def listed(counts: Counts) -> str:
    """Operations by name, each with how often if that is several times."""
    return ", ".join(f"{name} x {count}" if count > 1 else name for name, count in sorted(counts.items()))


def defect_row(what: str, comparisons: Mapping[str, Comparison]) -> Row:
    """Returns the cells of a defect: the bug, its effect in each precision, and our result.

    Args:
        what: the bug.
        comparisons: precision -> both sides.
    """
    wrong = [_wrong(comparisons[precision].peer) for precision in PRECISIONS]
    left = sorted({name for comparison in comparisons.values() for name in comparison.ours.left})
    return (what, *wrong, f"right, with {', '.join(left)} not delegated" if left else "right")


def _wrong(side: Side) -> str:
    if side.result in (FAILS, STOPS):
        return f"{side.result}: {reason_of(side)}"
    return side.result


def render(rows: Mapping[str, Row], defects: Mapping[str, Row]) -> str:
    """The page.

    Args:
        rows: of all cases, from `rows_of`.
        defects: of all defects, from `defect_row`.
    """
    kinds = Counter(row[-2] for row in rows.values())
    cases = len({_case(name) for name in rows})
    reasons = Counter((row[-2], reason) for row in rows.values() for reason in row[-1].split("; ") if reason)
    header = ("case", *(f"{who}: {what}" for who in ("peer", "ours") for what in _COLUMNS), "class", "reason")
    table = [header, ("---",) * len(header)]
    table += [(f"`{name}`", *row) for name, row in sorted(rows.items())]
    summary = [("class", "rows", "what"), ("---",) * 3]
    summary += [(kind, str(kinds[kind]), text) for kind, text in CLASSES.items()]
    why = [("class", "reason", "rows"), ("---",) * 3]
    why += [(*reason, str(count)) for reason, count in sorted(reasons.items())]
    wrong: list[Row] = [("call", "the peer", *PRECISIONS, "ours"), ("---",) * 5]
    wrong += [(f"`{name}`", *row) for name, row in defects.items()]
    return "\n".join(
        [
            "# The MPS delegate compared with the peer's",
            "",
            "<!-- Generated by `bazel run //tests/peer:differential_page`; a test compares. Do not edit. -->",
            "",
            _LEGEND,
            f"{cases} cases, {len(rows)} rows.",
            "",
            *_lines(summary),
            "",
            "## Why",
            "",
            *_lines(why),
            "",
            "## Defects",
            "",
            _DEFECTS_LEGEND,
            "",
            *_lines(wrong),
            "",
            "## Cases",
            "",
            *_lines(table),
            "",
        ]
    )


_COLUMNS: Final = ("delegates + left", "operations", "result")


def _lines(rows: Sequence[Row]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def _case(name: str) -> str:
    return name.rsplit(" (", 1)[0]


def parse(page: str) -> dict[str, Row]:
    """The rows of a page's cases."""
    return _table(page.partition("## Cases")[2])


def parse_defects(page: str) -> dict[str, Row]:
    """The rows of a page's defects."""
    return _table(page.partition("## Defects")[2].partition("## Cases")[0])


def _table(text: str) -> dict[str, Row]:
    rows = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            name, *cells = [part.strip() for part in line.split("|")[1:-1]]
            rows[name.strip("`")] = tuple(cells)
    return rows


def main() -> None:
    """Measures everything, and writes the page into the source tree."""
    rows: dict[str, Row] = {}
    for test in peer_tests():
        for case in record(test):
            rows |= rows_of(case.name, compare(case))
            print(case.name, flush=True)
    wrong = {
        name: defect_row(defect.what, found)
        for name, defect in DEFECTS.items()
        if (found := compare(defect.case(name)))
    }
    page = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "docs" / "mps_differential.md"
    page.write_text(render(rows, wrong), encoding="utf-8")


if __name__ == "__main__":
    main()
