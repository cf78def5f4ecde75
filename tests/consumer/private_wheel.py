# SPDX-License-Identifier: Apache-2.0
"""Small wheels for tests."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_wheel(
    folder: Path, name: str, version: str, modules: Mapping[str, str], requires: Sequence[str] = ()
) -> str:
    """Writes a wheel of pure Python.

    Args:
        folder: where to.
        name: name of the distribution, with underscores.
        version: its version.
        modules: path -> text of each file.
        requires: its requirements.

    Returns:
        Its line in a lock.
    """
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
    wheel = ["Wheel-Version: 1.0", "Generator: test", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    information = f"{name}-{version}.dist-info"
    files = {
        **modules,
        f"{information}/METADATA": "\n".join(metadata) + "\n",
        f"{information}/WHEEL": "\n".join(wheel) + "\n",
    }
    record = f"{information}/RECORD"
    files[record] = "".join(f"{path},,\n" for path in [*files, record])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
