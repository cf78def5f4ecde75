# SPDX-License-Identifier: Apache-2.0
"""Names of files that belong to another one."""

from __future__ import annotations

import os


def sources_path(program: str) -> str:
    """Returns the path of the lines of a `.pt2`, unless another one is given: NAME.sources.json."""
    return os.path.splitext(program)[0] + ".sources.json"


def samples_path(program: str) -> str:
    """Returns the path of the calls that a `.pt2` was compared with, unless another one is given."""
    return os.path.splitext(program)[0] + ".samples.safetensors"
