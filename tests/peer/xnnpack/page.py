# SPDX-License-Identifier: Apache-2.0
"""The XNNPACK delegate compared with the peer's: a record, a summary in docs/xnnpack.md, a page on request.

bazel run //tests/peer/xnnpack:page -- --lines=/tmp/sides.jsonl --page=/tmp/xnnpack.md

Tests of torchvision's models need it in a folder, which `--torchvision` names:
pip install --no-deps --target=/tmp/torchvision torchvision==0.28.0 pillow==13.0.0
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.peer.xnnpack.campaign import Sides, run
from tests.peer.xnnpack.rows import CLASSES, NEITHER, WORSE, cells, classify
from tests.peer.xnnpack.sides import OURS, PEER, Side
from tests.peer.xnnpack.torchvision_models import torchvision_in
from tests.records.records import ROOT, Row, parser, read, table, text_of, write_section

RECORD: Final = ROOT / "tests/peer/xnnpack/recorded.json"
DOCS: Final = ROOT / "docs/xnnpack.md"
SECTION: Final = "cases of the peer"

_LEGEND: Final = """\
The programs in ExecuTorch's tests of its XNNPACK delegate and quantizer, including tests that it skips,
lowered by its compiler and by ours. Both programs run in the stock runtime of ExecuTorch 1.4.1, for the
inputs of the test and random ones. The results are compared with the exported program in eager mode, as the
test does, within its tolerance. The tolerance is 1e-3, absolute and relative, where the test never runs a
lowered program: those of the quantizer and of most passes. Models of torchvision 0.28.0 have random weights.
Inception's outputs then reach 6e11, and neither program, nor eager mode compared with float64, is within the
tolerance of the test.
Missing are tests that need torchaudio or a download, tests that lower no program, and those that no run has
measured yet. Of a test with more than 24 cases, some at even distances are measured. A compiler that takes
more than 20 minutes `fails`.

- `delegates + left`: calls of delegates, and of the runtime's own kernels.
- result: `right` as in eager mode, `wrong`, `stops` if the runtime reports an error, `fails` if the compiler
  does or the process crashes.
- error: the largest difference from eager mode, relative to the largest magnitude of the output. It depends
  on the host's processor. Wrong results that are quantized have it in quantization steps, too.

Three properties of the runtime make results `wrong`:

- It multiplies quantized values as integers and rounds once. A result halfway between two quantized values
  may become the other one than in eager mode: tests of quantized operators often accept 1 or 2 steps.
- It quantizes each row of a linear operator's input alone at run time, where the exported program has one
  scale for all of the input. The peer's results are those of eager mode for each row alone. Ours have one
  scale, which of a float16 input is rounded otherwise than in eager mode: some values differ by one step.
- It keeps the scales of groups of weights as bfloat16."""

_HEADER: Final = (
    *("case", "peer: delegates + left", "peer: result", "peer: error"),
    *("ours: delegates + left", "ours: result", "ours: error", "class", "reason"),
)


def row(pair: Mapping[str, Side]) -> Row:
    """Returns the cells of a case, without its name."""
    verdict = classify(pair[PEER], pair[OURS])
    reason = " ".join(verdict.reason.replace("|", "/").split())
    return (*cells(pair[PEER]), *cells(pair[OURS]), verdict.kind, reason)


def same_on_all_hosts(row: Row) -> Row:
    """Returns the cells that do not depend on the processor."""
    peer, peers, _, ours, own, _, *rest = row
    return (peer, peers, ours, own, *rest)


def summary(rows: Mapping[str, Row]) -> str:
    """Returns the part of the page that is in docs/xnnpack.md: the classes, and cases with wrong results.

    Args:
        rows: name of the case -> `row`.
    """
    kinds = Counter(cells[-2] for cells in rows.values())
    exceptions = [(name, *cells) for name, cells in sorted(rows.items()) if cells[-2] in (WORSE, NEITHER)]
    parts = [
        f"{len(rows)} cases.",
        table(("class", "cases", "what"), [(kind, str(kinds[kind]), what) for kind, what in CLASSES.items()]),
        f"The cases that are `{WORSE}` or `{NEITHER}`:",
        table(_HEADER, exceptions),
    ]
    return "\n\n".join(parts)


def render(rows: Mapping[str, Row]) -> str:
    """Returns a page with all rows.

    Args:
        rows: name of the case -> `row`.
    """
    reasons = Counter((cells[-2], cells[-1]) for cells in rows.values() if cells[-1])
    parts = [
        "# The XNNPACK delegate compared with the peer's",
        _LEGEND,
        summary(rows),
        "## Why",
        table(("class", "reason", "cases"), [(*key, str(count)) for key, count in sorted(reasons.items())]),
        "## Cases",
        table(_HEADER, [(name, *cells) for name, cells in sorted(rows.items())]),
    ]
    return "\n\n".join(parts) + "\n"


def rows(sides: Sides) -> dict[str, Row]:
    """Returns the rows of cases of which both sides are known."""
    return {name: row(pair) for name, pair in sides.items() if pair.keys() == {PEER, OURS}}


def main() -> int:
    """Measures what the file of lines lacks, and writes; fails if a case is worse than the peer."""
    flags = parser(__doc__.splitlines()[0])
    flags.add_argument("--lines", type=Path, help="file of measurements, continued")
    flags.add_argument("--module", action="append", default=[], help="like ops/add; all of them by default")
    flags.add_argument("--pattern", default="", help="a regular expression that names of cases contain")
    flags.add_argument("--every", type=int, default=1, help="one test of this number in each module")
    flags.add_argument("--again", action="append", default=[], choices=(PEER, OURS), help="measure again")
    flags.add_argument("--torchvision", type=Path, help="folder with torchvision")
    arguments = flags.parse_args()
    if not arguments.recorded and not arguments.lines:
        flags.error("expected --lines, or --recorded")
    found = read(RECORD)["cases"] if arguments.recorded else _measured(arguments)
    RECORD.write_text(text_of({"cases": found}), encoding="utf-8")
    write_section(DOCS, SECTION, summary(found))
    if arguments.page:
        arguments.page.write_text(render(found), encoding="utf-8")
    print(Counter(cells[-2] for cells in found.values()))
    worse = [name for name, cells in found.items() if cells[-2] == WORSE]
    for name in worse:
        print(f"{name}: {found[name][-1]}", file=sys.stderr)
    return min(len(worse), 1)


def _measured(arguments: argparse.Namespace) -> dict[str, Row]:
    with ExitStack() as stack:
        if arguments.torchvision:
            stack.enter_context(torchvision_in(arguments.torchvision))
        sides = run(arguments.lines, arguments.module, arguments.pattern, arguments.every, arguments.again)
    return rows(sides)


if __name__ == "__main__":
    sys.exit(main())
