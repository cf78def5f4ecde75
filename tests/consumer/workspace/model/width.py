# SPDX-License-Identifier: Apache-2.0
"""A file next to the model's that reads a data file of the target."""

from __future__ import annotations

from pathlib import Path

import delegatec


def width() -> int:
    """Width of the network."""
    return int(Path(delegatec.data_path("width.txt")).read_text())
