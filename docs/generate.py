# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages into the workspace: `bazel run //docs:generate`."""

from __future__ import annotations

import os
from pathlib import Path

from pages import PAGES

if __name__ == "__main__":
    folder = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "docs"
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")
