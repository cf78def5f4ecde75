# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages to the workspace: `bazel run //docs:generate`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pages import PAGES, with_backends

if __name__ == "__main__":
    root = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    for name, page in PAGES.items():
        (root / "docs" / name).write_text(page(), encoding="utf-8")
    readme, rows = root / "README.md", json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    readme.write_text(with_backends(readme.read_text(encoding="utf-8"), rows), encoding="utf-8")
