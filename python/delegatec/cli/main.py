# SPDX-License-Identifier: Apache-2.0
"""The command line of `python -m delegatec`.

Exit codes: 0 success, with all requested outputs; 1 invalid input (diagnostics on stderr, files as they were
before); 2 invalid command line; 70 a bug or crash of the compiler; 128 and the number of a signal, such as
130 for interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial

from delegatec.cli.arithmetic import pin_arithmetic
from delegatec.cli.command import Command, parse
from delegatec.cli.failures import report_failure
from delegatec.cli.outputs import Outputs
from delegatec.cli.streams import open_standard_streams
from delegatec.cli.supervisor import supervised

Execute = Callable[[Callable[[], int]], int]


def main(argv: Sequence[str]) -> int:
    """Runs one verb in a separate process, or the worker.

    Args:
        argv: the arguments; `@FILE` and `--flagfile=FILE` are replaced with the file's lines.

    Returns:
        The exit code.
    """
    open_standard_streams()
    pin_arithmetic()
    # Warnings of torch's C++ code, such as of deprecated uses in its own code: Python's are ignored, too.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if "--persistent_worker" in argv:
        from delegatec.cli import worker

        return worker.serve(run_verb, worker.warm_up)
    return run_verb(argv, partial(supervised, forward_signals=True))


def run_verb(argv: Sequence[str], execute: Execute = lambda run: run()) -> int:
    """Runs one verb; reports failures on stderr, and moves outputs to their final paths on success.

    Args:
        argv: as in `main`.
        execute: runs a function that returns the exit code: here, or in another process.
    """
    label = ""
    given: Callable[[object], str] = str
    try:
        command = parse(argv)
        if command is None:
            sys.stdout.flush()
            return 0
        label = command.label
        with Outputs(command) as outputs:
            given = outputs.given
            code = execute(partial(_run, command, outputs))
            if code == 0:
                outputs.commit()
        return code
    except BaseException as error:  # noqa: BLE001 - the last resort
        return report_failure(error, label, given)


def _run(command: Command, outputs: Outputs) -> int:
    streams = sys.stdout, sys.stderr
    try:
        with warnings.catch_warnings():
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            code = command.run()
            if sys.stdout is not None:  # user code may have replaced it
                sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the last resort
        sys.stdout, sys.stderr = streams  # user code may have replaced them
        return report_failure(error, command.label, outputs.given)
    assert code != 0 or not outputs.missing(), f"not written: {', '.join(outputs.missing())}"
    return code
