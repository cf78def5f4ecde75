# SPDX-License-Identifier: Apache-2.0
"""One step of the comparison with other tools, in a separate process.

    rivals_trial.py convert FOLDER TOOL PRECISION NETWORK...
    rivals_trial.py run NETWORK SECONDS TOOL=FILE...

The last line on stdout is the result as JSON.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch
from rivals_models import NETWORKS, Inputs
from rivals_tools import FLOAT, TOOLS
from torch import Tensor

EAGER: Final = "eager"
_INPUTS: Final = 4
_LEAST: Final = 5


@dataclass
class Run:
    """The cost and the error of one call.

    Attributes:
        seconds: minimum of CPU seconds over all rounds.
        error: the largest absolute difference from the module in eager mode, over all inputs, relative to the
            largest absolute value of the output.
    """

    seconds: float = float("inf")
    error: float = 0.0


def file_of(folder: Path, tool: str, precision: str, name: str) -> Path:
    """Returns the file of a network, which is in the folder."""
    stem = "-".join(re.sub(r"\W+", "_", part.lower()) for part in (name, precision, tool))
    return folder / f"{stem}{TOOLS[tool].suffix}"


def record_of(file: Path) -> Path:
    """Returns the record of a file: what made it, or why it is missing."""
    return file.with_suffix(".record.json")


def convert(folder: str, tool: str, precision: str, *names: str) -> int:
    """Makes files by a tool, each with a record: its `versions`, and the `failure` if any; counts them.

    One process makes many, since imports take longer than most networks. A record is there before its file,
    and says that the process died, in case it does.
    """
    made = TOOLS[tool]
    versions = ", ".join(f"{each} {version(each)}" for each in made.versions)
    for name in names:
        path = file_of(Path(folder), tool, precision, name)
        record = record_of(path)
        record.write_text(json.dumps({"failure": "dies", "versions": versions}))
        failure = ""
        try:
            if precision == FLOAT:
                made.convert(NETWORKS[name], path)
            else:
                made.quantize(NETWORKS[name], file_of(Path(folder), tool, FLOAT, name), path)
        except Exception as error:  # noqa: BLE001 - a failure of a tool is a result
            traceback.print_exc()
            failure = type(error).__name__
        record.write_text(json.dumps({"failure": failure, "versions": versions}))
    return len(names)


def run(name: str, seconds: str, *files: str) -> dict[str, Any]:
    """Runs the module in eager mode and all files alternately; returns a `Run` of each.

    Args:
        name: of the network.
        seconds: of wall clock for all rounds; there are at least five.
        files: TOOL=FILE of each tool.
    """
    network = NETWORKS[name]
    module = network.module()
    calls: dict[str, Callable[[Inputs], Sequence[Tensor]]] = {EAGER: lambda inputs: [module(*inputs)]}
    for each in files:
        tool, _, path = each.partition("=")
        calls[tool] = TOOLS[tool].load(Path(path))
    with torch.no_grad():
        runs = measure(calls, [network.inputs(number) for number in range(_INPUTS)], float(seconds))
    return {each: asdict(found) for each, found in runs.items()}


def measure(
    calls: Mapping[str, Callable[[Inputs], Sequence[Tensor]]], inputs: Sequence[Inputs], seconds: float
) -> dict[str, Run]:
    """Calls functions alternately; the one called `EAGER` is right.

    The tool that comes first after another one finds the caches full of the other's weights, so each round
    has another order.
    """
    runs = {each: Run() for each in calls}
    expected = [[value.clone() for value in calls[EAGER](values)] for values in inputs]
    names = list(calls)
    end, number = time.monotonic() + seconds, 0
    while number < _LEAST or time.monotonic() < end:
        at = number % len(inputs)
        turn = number % len(names)
        for each in names[turn:] + names[:turn]:
            start = time.process_time()
            found = calls[each](inputs[at])
            runs[each].seconds = min(runs[each].seconds, time.process_time() - start)
            runs[each].error = max(runs[each].error, _difference(found, expected[at]))
        number += 1
    return runs


def _difference(outputs: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    pairs = zip(outputs, expected, strict=True)
    found = [float((one.float() - other).abs().max() / other.abs().max()) for one, other in pairs]
    # NaN is not more than any number
    return math.inf if any(map(math.isnan, found)) else max(found)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {"convert": convert, "run": run}


def main() -> None:
    """Runs the command and prints its result."""
    command, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(COMMANDS[command](*arguments)))


if __name__ == "__main__":
    main()
