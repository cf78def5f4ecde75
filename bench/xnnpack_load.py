# SPDX-License-Identifier: Apache-2.0
"""Loads a program in the stock runtime, in a separate process, and calls it once.

    xnnpack_load.py INPUTS.pt PROGRAM.pte

The last line on stdout is the growth of resident memory, in bytes. The pages of the mapped file count,
although the system may drop them.
"""

from __future__ import annotations

import gc
import sys

import torch
from executorch.extension.pybindings import _portable_lib
from stopwatch import resident_memory


def load(inputs: str, program: str) -> int:
    """Returns the growth of resident memory by loading a program and calling it."""
    values = torch.load(inputs, weights_only=True)
    gc.collect()
    before = resident_memory()
    module = _portable_lib._load_for_executorch(program)
    module.run_method("forward", values)
    return resident_memory() - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(load(*sys.argv[1:]))
