# SPDX-License-Identifier: Apache-2.0
"""The outcomes of the peer's Arm suite with our compiler: a summary in docs/arm.md, a page on request.

bazel run //tests/peer/arm:page -- --page=/tmp/arm.md
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from tests.peer.arm.collection import KINDS
from tests.peer.arm.ours import BEYOND, NONE, STATUSES, as_it_should_be
from tests.peer.arm.record import Recorded, read
from tests.records.records import ROOT, parser, table, write_section

DOCS: Final = ROOT / "docs/arm.md"
SECTION: Final = "cases of the peer"

_LEGEND: Final = """\
The operator tests in ExecuTorch's wheel of its Arm delegate, lowered by our compiler. The tests are used
unchanged: the module, the inputs, the quantizer (the peer's) and the tolerances are theirs. Each case
becomes a TOSA graph, which Arm's reference model runs; its results are compared as the test compares them.
Cases of Ethos-U are compiled by Vela. Some cases must not be delegated. The peer's extension `mxfp` is read
as `mxfp` with `mxfp_conv` and both types of float8, which Arm's validator demands for the same graphs."""

_KINDS: Final = {
    "FP": "TOSA, floating point",
    "INT": "TOSA, quantized or integers",
    "U55": "Ethos-U55",
    "U65": "Ethos-U65",
    "U85": "Ethos-U85",
    "refused": "must not be delegated",
}


def summary(recorded: Recorded) -> str:
    """Returns the part of the page that is in docs/arm.md: counts, and the cases that are not right."""
    totals = recorded.totals()
    statuses = [each for each in STATUSES if any(each in counts for counts in totals.values())]
    kinds = _present(recorded)
    parts = [
        table(("status", "meaning"), [(each, STATUSES[each]) for each in statuses]),
        table(
            ("kind", "run", "cases", *statuses, "as it should be"),
            [
                (_KINDS[kind], _extent(recorded.every[kind]), *_cells(kind, totals[kind], statuses))
                for kind in kinds
            ],
        ),
        *_peer(recorded),
        "The cases that are delegated or refused otherwise than the test expects, or wrong:",
        table(
            ("kind", "status", "reason", "cases", "such as"),
            [row for row in _others(recorded) if row[1] != BEYOND],
        ),
    ]
    return "\n\n".join(parts)


def render(recorded: Recorded) -> str:
    """Returns a page with all modules."""
    kinds = _present(recorded)
    parts = [
        "# The peer's Arm tests",
        _LEGEND,
        summary(recorded),
        "## Modules",
        "Cases that are as they should be, of all that torch accepts.",
        table(("module", *kinds), list(_modules(recorded, kinds))),
        "## Beyond the peer",
        "Operators that the peer does not delegate, and we do.",
        table(
            ("operators: results compared with eager mode", "cases", "such as"),
            [row[2:] for row in _others(recorded) if row[1] == BEYOND],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _present(recorded: Recorded) -> list[str]:
    totals = recorded.totals()
    return [kind for kind in KINDS if kind in totals]


def _extent(every: int) -> str:
    return "all" if every == 1 else f"one in {every} of the modules listed"


def _cells(kind: str, counts: Counter[str], statuses: Sequence[str]) -> list[str]:
    valid = counts.total() - counts[NONE]
    share = _good(kind, counts) / valid if valid else 0.0
    return [str(counts.total()), *(str(counts[each] or "") for each in statuses), f"{share:.1%}"]


def _good(kind: str, counts: Counter[str]) -> int:
    return sum(counts[each] for each in as_it_should_be(kind))


def _modules(recorded: Recorded, kinds: Sequence[str]) -> Iterable[tuple[str, ...]]:
    for module, found in recorded.counts.items():
        cells = []
        for kind in kinds:
            counts = Counter(found.get(kind, {}))
            valid = counts.total() - counts[NONE]
            cells.append(f"{_good(kind, counts)}/{valid}" if valid else "")
        yield (f"`{module.partition('/')[2]}`", *cells)


def _peer(recorded: Recorded) -> Iterable[str]:
    rows = [
        (which, _KINDS[kind], *map(str, counts))
        for which, kinds in recorded.peer.items()
        for kind, counts in kinds.items()
    ]
    if rows:
        yield "Cases that a compiler, ours or the peer's, delegates as a whole, and Vela compiles:"
        yield table(("cases", "kind", "run", "ours", "the peer's"), rows)


def _others(recorded: Recorded) -> Iterable[tuple[str, ...]]:
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name, (kind, status, reason) in recorded.others.items():
        if status != NONE:
            groups[kind, status, reason].append(name)
    order = {kind: number for number, kind in enumerate(KINDS)}
    for (kind, status, reason), names in sorted(
        groups.items(), key=lambda item: (order.get(item[0][0], 9), -len(item[1]), item[0])
    ):
        yield (kind, status, reason, str(len(names)), f"`{names[0].partition('/')[2]}`")


def main() -> None:
    """Writes the summary and, on request, the page."""
    flags = parser(__doc__.splitlines()[0]).parse_args()
    write_section(DOCS, SECTION, summary(read()))
    if flags.page:
        flags.page.write_text(render(read()), encoding="utf-8")


if __name__ == "__main__":
    main()
