# SPDX-License-Identifier: Apache-2.0
"""The ratio of the times of a program and its baseline."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from delegatec.diagnostics import Diagnostic


@dataclass(frozen=True)
class Ratio:
    """The time of a program, divided by that of its baseline.

    Attributes:
        median: of the rounds.
        lower: the lower quartile of the rounds.
        upper: the upper quartile.
        rounds: number of rounds.
        in_turns: whether both ran in turns; otherwise the baseline is of another session, and the ratio
            contains what has changed on the machine.
    """

    median: float
    lower: float
    upper: float
    rounds: int
    in_turns: bool


def describe(ratio: Ratio) -> str:
    """Returns a ratio as text, such as "1.042 (1.031 to 1.049 in half of 9 rounds), in turns"."""
    rounds = f" ({ratio.lower:.3f} to {ratio.upper:.3f} in half of {ratio.rounds} rounds)"
    how = "in turns" if ratio.in_turns else "the baseline in another session"
    return f"{ratio.median:.3f}{rounds if ratio.rounds > 1 or not ratio.in_turns else ''}, {how}"


def ratio_of(rounds: Sequence[float], baseline: Sequence[float], in_turns: bool) -> Ratio:
    """Compares the times of processes.

    Args:
        rounds: of the program: the time of a run in each process, at least one.
        baseline: of the baseline.
        in_turns: whether the two ran in turns: then a round is compared with the one next to it, and
            otherwise each with each.
    """
    pairs = zip(rounds, baseline, strict=True) if in_turns else itertools.product(rounds, baseline)
    ratios = [max(1, a) / max(1, b) for a, b in pairs]
    lower, middle, upper = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return Ratio(middle, lower, upper, len(rounds), in_turns)


def over_limit(ratio: Ratio, limit: float | None, program: str, baseline: str) -> list[Diagnostic]:
    """Returns DC525 if three quarters of the rounds are above a limit, so that a slow moment does not decide.

    Args:
        ratio: the result of `ratio_of`.
        limit: the largest ratio; None for none.
        program: name of the program.
        baseline: name of the baseline.
    """
    if limit is None or ratio.lower <= limit:
        return []
    least = (
        f", and at least {ratio.lower:.3f} times in three of four rounds" if ratio.lower < ratio.upper else ""
    )
    return [
        Diagnostic(
            "DC525",
            f"{program} takes {ratio.median:.3f} times as long as {baseline}{least}",
            expected=f"at most {limit:g}",
            help="compare the profiles of both: which lines take longer",
        )
    ]
