# SPDX-License-Identifier: Apache-2.0
"""`python -m delegatec`, and `python <folder>/delegatec/__main__.py` where PYTHONPATH does not lead here."""

from __future__ import annotations

import gc
import os
import sys

if __name__ == "__main__":
    if not __package__:
        sys.path[0:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    # torch and graphs are many objects that stay: looking for garbage among them took a fifth of the time.
    gc.set_threshold(100_000, 20, 100)
    from delegatec.cli.main import main

    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking torch down the ordinary way costs up to a second of each action.
    os._exit(code)
