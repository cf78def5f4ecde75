# SPDX-License-Identifier: Apache-2.0
"""Runs the peer's Arm suite: a line of JSON for each case, and from the lines recorded.json.

`bazel run //tests/peer/arm:campaign -- --lines=FILE --reference-model=PYTHON`, and then with `--record`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.reference import TosaReferenceExecutor
from tests.peer.arm.campaign import Selection, campaign, read_lines
from tests.peer.arm.collection import KINDS, arm_modules
from tests.peer.arm.record import RECORDED, record, write
from tests.peer.arm.reference_model import ReferenceModel


def executor(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Runs a graph by our reference executor."""
    return TosaReferenceExecutor(read_blob(memoryview(blob)))(inputs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path, required=True, help="the file of lines; its cases are skipped")
    parser.add_argument("--every", type=int, default=1, help="one case of this number")
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--pattern", default="", help="of the names of cases")
    parser.add_argument("--shard", default="0/1", help="its number / how many there are, by modules")
    parser.add_argument("--reference-model", type=Path, help="a Python with Arm's reference model")
    parser.add_argument("--record", action="store_true", help="only records the lines, for these kinds")
    options = parser.parse_args(arguments)
    if options.record:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
        path = Path(root) / "tests/peer/arm" / RECORDED.name if root else RECORDED
        lines = [line for line in read_lines(options.lines).values() if line["kind"] in options.kinds]
        write(record(lines, dict.fromkeys(options.kinds, options.every)), path)
        return
    run = ReferenceModel(options.reference_model).run if options.reference_model else executor
    number, count = map(int, options.shard.split("/"))
    modules = arm_modules()[number::count]
    campaign(Selection(modules, options.kinds, options.pattern, options.every), options.lines, run)


if __name__ == "__main__":
    main()
