# SPDX-License-Identifier: Apache-2.0
"""The outcomes of trials as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trial import TOOLS, Outcome

# (model, backend) -> tool -> outcome.
Trials = dict[tuple[str, str], dict[str, Outcome]]

_MEBIBYTE: Final = 2**20

# Heading -> cell.
_RESULT: Final[dict[str, Callable[[Outcome], str]]] = {
    "first, CPU s": lambda o: f"{o.first:.2f}",
    "memory, MiB": lambda o: f"{o.memory / _MEBIBYTE:.0f}",
    "of the weights": lambda o: f"{o.memory / o.weights:.2f} x",
    "delegates": lambda o: f"{o.delegates}",
    "operators left": lambda o: f"{o.operators}",
    "planned bytes": lambda o: f"{o.planned:,}",
    "in use at most": lambda o: f"{o.live:,}",
    "planned / in use": lambda o: f"{o.planned / max(1, o.live):.3f}",
    "file bytes": lambda o: f"{o.file:,}",
}


def tables(trials: Trials) -> str:
    """Returns all tables: the ratio of each pair, the stages of each tool, memory and results."""
    parts = [
        "### CPU time of lowering, seconds",
        table(("model", "backend", *TOOLS, "peer / ours"), 2, [_times(*pair) for pair in trials.items()]),
    ]
    for tool in TOOLS:
        # Without delegation there are fewer stages.
        stages = list(max((pair[tool].seconds for pair in trials.values()), key=len))
        rows = [_stages(key, pair[tool], stages) for key, pair in trials.items()]
        parts += [f"### Stages, {tool}, seconds", table(("model", "backend", *stages), 2, rows)]
    rows = [_result(key, tool, outcome) for key, pair in trials.items() for tool, outcome in pair.items()]
    parts += ["### Memory and results", table(("model", "backend", "", *_RESULT), 3, rows)]
    return "\n\n".join(parts) + "\n"


def ratio(pair: dict[str, Outcome]) -> float | None:
    """Returns the peer's CPU time divided by ours; None if either failed."""
    if any(outcome.error for outcome in pair.values()):
        return None
    return pair["peer"].lowering / pair["ours"].lowering


def _times(key: tuple[str, str], pair: dict[str, Outcome]) -> list[str]:
    cells = [pair[tool].error or f"{pair[tool].lowering:.2f}" for tool in TOOLS]
    factor = ratio(pair)
    return [*key, *cells, "" if factor is None else f"{factor:.0f} x"]


def _stages(key: tuple[str, str], outcome: Outcome, stages: Sequence[str]) -> list[str]:
    if outcome.error:
        return [*key, outcome.error, *([""] * (len(stages) - 1))]
    return [*key, *(f"{outcome.seconds[s]:.2f}" if s in outcome.seconds else "" for s in stages)]


def _result(key: tuple[str, str], tool: str, outcome: Outcome) -> list[str]:
    if outcome.error:
        return [*key, tool, outcome.error, *([""] * (len(_RESULT) - 1))]
    return [*key, tool, *(cell(outcome) for cell in _RESULT.values())]


def table(headings: Sequence[str], texts: int, rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table; the first columns are text, the others numeric."""
    rule = ["---"] * texts + ["---:"] * (len(headings) - texts)
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rule, *rows))
