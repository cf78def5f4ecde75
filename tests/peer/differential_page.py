# SPDX-License-Identifier: Apache-2.0
"""The MPS delegate compared with the peer's: a record, a summary in docs/mps.md, and a page on request.

bazel run //tests/peer:differential_page -- --page=/tmp/mps.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tests.peer.classes import CLASSES, classify, reason_of
from tests.peer.defects import DEFECTS
from tests.peer.differential import FAILS, PRECISIONS, STOPS, Comparison, Counts, Side, compare
from tests.peer.suite import peer_tests, record
from tests.records.records import ROOT, Row, parser, read, table, text_of, write_section

RECORD: Final = ROOT / "tests/peer/recorded.json"
DOCS: Final = ROOT / "docs/mps.md"
SECTION: Final = "cases of the peer"

_LEGEND: Final = """\
Every module in ExecuTorch's tests of its MPS delegate, including skipped ones, lowered by its compiler and
by ours. The reference executor, which rejects blobs that the runtime rejects, runs both blobs from their
bytes alone; other operators run in eager mode. The results are compared with the model in eager mode (for
fp16, also in half precision). Operations on constants only are folded in both before they are counted.

- `delegates + left`: number of delegates, and of operators that are not delegated.
- operations: those that compute, the number of those that only move data, and the number of casts, including
  those of inputs and outputs with fp16.
- result: `right` as in eager mode, `wrong`, `stops` if the runtime would abort, `fails` if the compiler does.
- A case with one row has the same results in both precisions."""

_DEFECTS_LEGEND: Final = """\
Calls of the peer's operators with wrong results in its blobs. The report of ours has a reason for every
operator that is not delegated. Blobs of the peer also depend on earlier compilations in the process."""


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


def summary(rows: Mapping[str, Row], defects: Mapping[str, Row]) -> str:
    """Returns the part of the page that is in docs/mps.md: the classes of all cases.

    Args:
        rows: of all cases, from `rows_of`.
        defects: of all defects, from `defect_row`.
    """
    kinds = Counter(row[-2] for row in rows.values())
    cases = len({_case(name) for name in rows})
    classes = table(
        ("class", "rows", "what"), [(kind, str(kinds[kind]), what) for kind, what in CLASSES.items()]
    )
    counts = f"{cases} cases, {len(rows)} rows: one, or one for each precision if these differ."
    return f"{counts}\n\n{classes}\n\nThe peer fails in {len(defects)} further calls, which are right here."


def render(rows: Mapping[str, Row], defects: Mapping[str, Row]) -> str:
    """Returns a page with all rows.

    Args:
        rows: of all cases, from `rows_of`.
        defects: of all defects, from `defect_row`.
    """
    reasons = Counter((row[-2], reason) for row in rows.values() for reason in row[-1].split("; ") if reason)
    header = ("case", *(f"{who}: {what}" for who in ("peer", "ours") for what in _COLUMNS), "class", "reason")
    parts = [
        "# The MPS delegate compared with the peer's",
        _LEGEND,
        summary(rows, defects),
        "## Why",
        table(("class", "reason", "rows"), [(*key, str(count)) for key, count in sorted(reasons.items())]),
        "## Defects",
        _DEFECTS_LEGEND,
        table(("call", "the peer", *PRECISIONS, "ours"), _named(defects)),
        "## Cases",
        table(header, _named(rows)),
    ]
    return "\n\n".join(parts) + "\n"


def _named(rows: Mapping[str, Row]) -> Iterator[Row]:
    return ((f"`{name}`", *cells) for name, cells in sorted(rows.items()))


_COLUMNS: Final = ("delegates + left", "operations", "result")


def _case(name: str) -> str:
    return name.rsplit(" (", 1)[0]


def main() -> None:
    """Measures everything, and writes the record, the summary and, on request, the page."""
    flags = parser(__doc__).parse_args()
    rows, wrong = read(RECORD).values() if flags.recorded else measured()
    RECORD.write_text(text_of({"cases": rows, "defects": wrong}), encoding="utf-8")
    write_section(DOCS, SECTION, summary(rows, wrong))
    if flags.page:
        flags.page.write_text(render(rows, wrong), encoding="utf-8")


def measured() -> tuple[dict[str, Row], dict[str, Row]]:
    """Returns the rows of all cases and of all defects."""
    rows: dict[str, Row] = {}
    for test in peer_tests():
        for case in record(test):
            rows |= rows_of(case.name, compare(case))
            print(case.name, flush=True)
    found = {name: compare(defect.case(name)) for name, defect in DEFECTS.items()}
    return rows, {name: defect_row(DEFECTS[name].what, each) for name, each in found.items() if each}


if __name__ == "__main__":
    main()
