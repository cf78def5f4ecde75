# SPDX-License-Identifier: Apache-2.0
"""Both sides of a case as a row: a class and a reason."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.peer.xnnpack.sides import FAILS, NONE, RIGHT, WRONG, Side

EQUAL: Final = "equal"
BETTER: Final = "better"
OTHER: Final = "other"
NEITHER: Final = "neither"
WORSE: Final = "worse"
NO_CASE: Final = "no case"

CLASSES: Final = {
    EQUAL: "as many delegates, and as many operators left outside of them, with right results",
    BETTER: "the peer fails, or is wrong, or leaves more operators, or needs more delegates",
    OTHER: "nothing is computed that a delegate would be worth",
    NEITHER: "both compilers refuse the program, ours with a diagnostic; or both are wrong, ours by no more, "
    "without more operators left or more delegates",
    WORSE: "ours fails, or is wrong, or leaves more operators, or needs more delegates",
    NO_CASE: "torch rejects the case",
}

# Kernels that only move data.
_MOVES: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("alias_copy.out", "cat.out", "clone.out", "copy.out", "expand_copy.out", "permute_copy.out"),
        *("select_copy.int_out", "slice_copy.Tensor_out", "squeeze_copy.dims_out", "unsqueeze_copy.out"),
        *("transpose_copy.int_out", "view_copy.out", "_to_copy.out", "t_copy.out", "detach_copy.out"),
    )
) | {"dim_order_ops::_clone_dim_order.out", "dim_order_ops::_to_dim_order_copy.out"}


@dataclass(frozen=True)
class Verdict:
    """A class of `CLASSES`, and why."""

    kind: str
    reason: str = ""


def classify(peer: Side, ours: Side) -> Verdict:
    """Returns the class of a case."""
    if NONE in (peer.result, ours.result):
        return Verdict(NO_CASE)
    if peer.result == ours.result == FAILS and re.match(r"DC\d+ ", ours.detail):
        return Verdict(NEITHER, f"ours {ours.result}: {ours.detail}")
    both_wrong = peer.result == ours.result == WRONG and ours.difference <= peer.difference
    if ours.result != RIGHT and not both_wrong:
        return Verdict(WORSE, f"ours {ours.result}: {ours.detail}")
    if peer.result != RIGHT and not both_wrong:
        return Verdict(BETTER, f"the peer {peer.result}: {_general(peer.detail)}")
    placed = _placement(peer, ours)
    if not both_wrong:
        return placed
    if placed.kind in (EQUAL, BETTER):
        return Verdict(NEITHER, "both differ from eager mode, ours no more than the peer's")
    return Verdict(WORSE, placed.reason)


def _placement(peer: Side, ours: Side) -> Verdict:
    """Compares which operators are in delegates."""
    left, gone = Counter(ours.left) - Counter(peer.left), Counter(peer.left) - Counter(ours.left)
    if len(ours.left) < len(peer.left):
        return Verdict(BETTER, f"the peer leaves {_listed(gone)}")
    if len(ours.left) > len(peer.left):
        kind = OTHER if not ours.delegates and set(ours.left) <= _MOVES else WORSE
        return Verdict(kind, f"ours leaves {_listed(left)}")
    if ours.delegates != peer.delegates:
        reason = f"{ours.delegates} instead of {peer.delegates} delegates"
        return Verdict(BETTER if ours.delegates < peer.delegates else WORSE, reason)
    return Verdict(EQUAL)


def cells(side: Side) -> tuple[str, str, str]:
    """Returns delegates and operators, the result, and the difference, which depends on the host."""
    if side.result in (FAILS, NONE):
        return ("", side.result, "")
    error = f"{side.difference:.0e}"
    if side.result == WRONG and side.quantization_steps:
        error += f" ({_counted(round(side.quantization_steps), 'quantization step')})"
    return (f"{side.delegates} + {len(side.left)}", side.result, error)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: Counter[str]) -> str:
    short = Counter({name.removeprefix("aten::"): count for name, count in names.items()})
    return ", ".join(f"{name} x {count}" if count > 1 else name for name, count in sorted(short.items()))


def _general(detail: str) -> str:
    """Returns an error in one cell of a table."""
    return " ".join(detail.replace("|", "/").split())[:120]
