# SPDX-License-Identifier: Apache-2.0
"""Puts buildbox-worker out of Debian's unstable distribution into a directory, to run on an older Debian.

Usage: install_worker.py FOLDER

Writes `FOLDER/usr/bin/buildbox-worker`. If that fails, for example because the distribution cannot be
reached, writes the reason to `FOLDER/missing.txt` instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from debian_packages import Distribution, UnavailableError
from relocate import relink, relocate

_WORKER: Final = "usr/bin/buildbox-worker"


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    try:
        with tempfile.TemporaryDirectory(dir=root) as temporary:
            distribution = Distribution(Path(temporary))
            distribution.extract(distribution.libraries(["buildbox", "patchelf"]), root)
        relink(root)
        relocate(root, [root / _WORKER])
        subprocess.run([root / _WORKER, "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError, UnavailableError) as error:
        shutil.rmtree(root / "usr", ignore_errors=True)
        (root / "missing.txt").write_text(f"no buildbox-worker: {error}\n")


if __name__ == "__main__":
    main()
