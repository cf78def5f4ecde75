# SPDX-License-Identifier: Apache-2.0
"""Quantizes and lowers the same models for Ethos-U by the peer and by us, and reports Vela's estimates.

    bazel run //bench:ethos_u -- --write

Each tool quantizes by its own quantizer, with the same samples, and Vela has the same flags for both. The
CPU time is that of the lowering, without quantization and Vela, in a process that has lowered a layer.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from typing import Final

import page
from ethos_u_models import ETHOS_U_MODELS
from ethos_u_trial import ACCELERATORS, TOOLS, Outcome
from tables import table

_TRIAL: Final = "ethos_u_trial.py"
_KIBIBYTE: Final = 1024
_COLUMNS: Final = (
    *("model", "target", "", "delegates", "cycles", "NPU operations", "SRAM, KiB", "DRAM, KiB", "CPU s"),
)

# (model, accelerator) -> tool -> outcome.
Results = dict[tuple[str, str], dict[str, Outcome]]


def ethos_u_table(results: Results) -> str:
    """Returns a table with a row per model, accelerator and tool, and the ratio of cycles."""
    rows = []
    for (name, accelerator), pair in results.items():
        for tool, outcome in pair.items():
            rows.append(
                [name, accelerator.removeprefix("ethos-").upper(), tool, *_cells(tool, pair, outcome)]
            )
    return table(_COLUMNS, 3, rows)


def _cells(tool: str, pair: dict[str, Outcome], outcome: Outcome) -> list[str]:
    if outcome.error or not outcome.totals:
        return [f"fails: {outcome.error.partition(':')[0]}", *[""] * (len(_COLUMNS) - 4)]
    totals = outcome.totals
    cycles = f"{totals['cycles']:,}"
    other = pair["peer"].totals
    if tool == "ours" and other:
        cycles += f" ({other['cycles'] / totals['cycles']:.2f} x)"
    sizes = [f"{totals[key] / _KIBIBYTE:,.0f}" for key in ("sram_bytes", "dram_bytes")]
    return [str(outcome.delegates), cycles, str(totals["operators"]), *sizes, f"{outcome.seconds:.2f}"]


def trials(names: list[str], accelerators: list[str]) -> Results:
    """Returns the outcomes of every tool for every model."""
    results: Results = {}
    for name in names:
        for tool in TOOLS:
            for found in json.loads(page.child(_TRIAL, tool, name, *accelerators)):
                outcome = Outcome(**found)
                results.setdefault((name, outcome.accelerator), {})[tool] = outcome
                said = outcome.error or f"{outcome.totals.get('cycles'):,} cycles, {outcome.seconds:.2f} s"
                print(f"{name}, {outcome.accelerator}, {tool}: {said}", file=sys.stderr, flush=True)
    return results


def main() -> None:
    """Runs the trials, and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", choices=ETHOS_U_MODELS, help="all of them by default")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    results = trials(arguments.model or list(ETHOS_U_MODELS), list(ACCELERATORS))
    versions = [f"{name} {version(name)}" for name in ("torch", "executorch", "ethos-u-vela")]
    text = f"{page.machine(versions)}; one run.\n\n{ethos_u_table(results)}\n"
    print(text)
    if arguments.write:
        page.write("ethos_u", text)


if __name__ == "__main__":
    main()
