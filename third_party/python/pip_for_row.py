# SPDX-License-Identifier: Apache-2.0
"""Runs pip with the environment markers of a row.

Usage: pip_for_row.py MARKERS ARGUMENT...

MARKERS are JSON. With `--platform` and `--python-version`, pip chooses wheels for another platform, and yet
compares markers with the Python that runs it.
"""

from __future__ import annotations

import json
import runpy
import sys

from pip._vendor.packaging import markers


def main() -> None:
    environment = {**markers.default_environment(), **json.loads(sys.argv.pop(1))}
    markers.default_environment = lambda: {**environment}
    runpy.run_module("pip", run_name="__main__")


if __name__ == "__main__":
    main()
