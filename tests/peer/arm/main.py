# SPDX-License-Identifier: Apache-2.0
"""Runs the peer's Arm suite: a line of JSON for each case, and from the lines recorded.json.

`bazel run //tests/peer/arm:campaign -- --lines=FILE`, and then with `--record`, which replaces the outcomes
of these kinds, or with `--update`, which replaces those of these cases. A run that was stopped continues
where it was. Several processes share the work with `--shard=0/4` and so on, each with its own file. The
reference model and the validator are those of `tests/arm`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.reference import TosaReferenceExecutor
from delegatec.backends.arm.specification import TosaSpecification
from tests.arm import tosa_tools
from tests.peer.arm.campaign import Selection, campaign, read_lines
from tests.peer.arm.collection import KINDS, arm_modules
from tests.peer.arm.record import OTHERS, RECORDED, compare, merged, read, record, updated, write


def executor(blob: bytes, inputs: Sequence[torch.Tensor], _: str) -> list[torch.Tensor]:
    """Runs a graph by our reference executor."""
    return TosaReferenceExecutor(read_blob(memoryview(blob)))(inputs)


def _checked(blob: bytes, inputs: Sequence[torch.Tensor], specification: str) -> list[torch.Tensor]:
    parsed = TosaSpecification.parse(specification)
    # The validator has more extensions for these types than the peer's tests name.
    if "mxfp" not in parsed.extensions:
        tosa_tools.check(blob, replace(parsed, mark=""))
    return tosa_tools.run(blob, inputs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lines",
        type=Path,
        nargs="+",
        required=True,
        help="the file of lines, whose cases are skipped; to record, those of all shards",
    )
    parser.add_argument("--again", action="store_true", help="runs again what is not as it should be")
    parser.add_argument("--every", type=int, default=1, help="one case of this number")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--pattern", default="", help="of the names of cases")
    parser.add_argument("--shard", default="0/1", help="its number / how many there are, by modules")
    parser.add_argument("--record", action="store_true", help="only records the lines, for these kinds")
    parser.add_argument("--update", action="store_true", help="only records the lines, for these cases")
    parser.add_argument("--peer", type=Path, help="lines of the peer's compiler, to record next to ours")
    options = parser.parse_args(arguments)
    if options.record or options.update:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
        path = Path(root) / "tests/peer/arm" / RECORDED.name if root else RECORDED
        lines = {name: line for file in options.lines for name, line in read_lines(file).items()}
        compared = compare(lines, read_lines(options.peer)) if options.peer else None
        chosen = [line for line in lines.values() if line["kind"] in options.kinds]
        if options.update:
            write(updated(read(path), chosen, {OTHERS: compared[OTHERS]} if compared else None), path)
            return
        new = record(chosen, dict.fromkeys(options.kinds, options.every), compared)
        write(merged(read(path), new, options.kinds), path)
        return
    number, count = map(int, options.shard.split("/"))
    modules = arm_modules()[number::count]
    selection = Selection(modules, options.kinds, options.pattern, options.every)
    campaign(selection, options.lines[0], _checked, again=options.again)


if __name__ == "__main__":
    main()
