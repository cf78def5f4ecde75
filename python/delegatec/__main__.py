# SPDX-License-Identifier: Apache-2.0
"""`python -m delegatec`, the command `delegatec`, or `python <directory>/delegatec/__main__.py`."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn


def run() -> NoReturn:
    """Runs the command line, and ends the process."""
    if not __package__:
        sys.path[0:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    elif not sys.flags.safe_path:
        # The working directory, or that of the script: its files must not hide modules, such as a torch.py.
        sys.path.append(sys.path.pop(0))
    if sys.version_info < (3, 11):  # noqa: UP036 - run by any Python
        version = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"delegatec: error DC006: Python {version} is too old\n  expected: Python 3.11 or newer")
    # torch and graphs are many long-lived objects: collecting garbage took a fifth of the time.
    gc.set_threshold(100_000, 20, 100)
    try:
        from delegatec.cli.main import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # while it starts
        code = 130
    with contextlib.suppress(OSError, ValueError):  # reported where it was written
        sys.stdout.flush()
        sys.stderr.flush()
    # Regular shutdown of torch takes up to a second.
    os._exit(code)


if __name__ == "__main__":
    run()
