# SPDX-License-Identifier: Apache-2.0
"""Archives of a release. Their bytes follow from their files, and from the zlib of the interpreter."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MODULE: Final = "rules_delegate"

EXCLUDED: Final = frozenset({".bcr", ".ci", "bench", "examples", "tests", "tools"})
"""Directories that a user of the rules does not need: most bytes of the tree, and all large files."""

TEST_MODULE: Final = "e2e/minimal"
_STAMPED: Final = ("MODULE.bazel", f"{TEST_MODULE}/MODULE.bazel")
_UNSTAMPED: Final = 'version = "0.0.0"'
_OVERRIDE: Final = re.compile(r"\n\n# A release .*\nlocal_path_override\([^)]*\)\n\Z")
_MODES: Final = {"100644": 0o644, "100755": 0o755}


def source_files(root: Path, version: str) -> dict[str, tuple[bytes, int]]:
    """Returns the files of the source archive: path -> contents and mode.

    Contents are those of the working tree, of files that git tracks. MODULE.bazel gets the version.

    Args:
        root: the root of a checkout.
        version: the version of the release.

    Raises:
        SystemExit: `root` is not a checkout, or a file is a link.
    """
    listed = git(root, "ls-files", "--stage", "-z").split("\0")
    files = {}
    for line in filter(None, listed):
        description, _, path = line.partition("\t")
        if path.split("/")[0] in EXCLUDED:
            continue
        mode = description.split()[0]
        if mode not in _MODES:
            raise SystemExit(f"release: {path} is not a regular file (mode {mode})")
        content = (root / path).read_bytes()
        files[path] = (
            _stamped(path, content.decode(), version).encode() if path in _STAMPED else content,
            _MODES[mode],
        )
    if not {*_STAMPED} <= {*files}:
        # git also lists the files of a directory inside a checkout.
        raise SystemExit(f"release: {root} is not the root of a checkout")
    return files


def _stamped(path: str, text: str, version: str) -> str:
    stamped, count = text.replace(_UNSTAMPED, f'version = "{version}"'), text.count(_UNSTAMPED)
    if count != 1:
        raise SystemExit(f"release: {path} has {_UNSTAMPED} {count} times, expected once")
    return _OVERRIDE.sub("\n", stamped)


def git(root: Path, *arguments: str) -> str:
    """Returns the output of a command of git.

    Raises:
        SystemExit: it fails.
    """
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", root, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"release: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def packed(files: Mapping[str, tuple[bytes, int]], prefix: str = "") -> bytes:
    """Returns a `.tar.gz` of files, in the order of their paths, without owners and times.

    Args:
        files: path -> contents and mode.
        prefix: the directory of all files in the archive; empty for none.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{prefix}/{path}" if prefix else path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), 9, mtime=0)


def integrity(content: bytes) -> str:
    """Returns a digest in the form of Subresource Integrity, as a registry has it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode()
