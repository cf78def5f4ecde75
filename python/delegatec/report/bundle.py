# SPDX-License-Identifier: Apache-2.0
"""The files that an app ships: programs, weights and licenses in one directory or zip file, with an index."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from delegatec.diagnostics.documents import json_document
from delegatec.report.manifest import Manifest

INDEX: Final = "index.json"
# Incremented when a field changes its meaning or is removed.
SCHEMA_VERSION: Final = 1
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Member:
    """A program of a bundle.

    Attributes:
        name: path of the `.pte` in the bundle.
        manifest: of the program.
        weights: path of its `.ptd` in the bundle; empty if it has none.
    """

    name: str
    manifest: Manifest
    weights: str = ""


def index_of(members: Sequence[Member], files: Mapping[str, Path], licenses: Sequence[str]) -> str:
    """Returns the index of a bundle as JSON: the data that an app needs to choose, check and load a program.

    Args:
        members: the programs.
        files: path in the bundle -> the file.
        licenses: paths of texts of licenses in the bundle.
    """
    weights = sorted({member.weights for member in members if member.weights})
    document = {
        "schema_version": SCHEMA_VERSION,
        "programs": [
            {
                **_described(member.name, files),
                "label": member.manifest.label,
                "backend": member.manifest.backend,
                "delegates": sorted(
                    {delegate.backend for method in member.manifest.methods for delegate in method.delegates}
                ),
                "options": dict(sorted(member.manifest.options.items())),
                "methods": [method.name for method in member.manifest.methods],
                "weights": member.weights or None,
            }
            for member in sorted(members, key=lambda each: each.name)
        ],
        "weights": [_described(name, files) for name in weights],
        "licenses": sorted(licenses),
    }
    return json_document(document)


def write_directory(folder: Path, files: Mapping[str, Path], index: str) -> None:
    """Writes a bundle as a directory.

    Args:
        folder: the directory, which may exist.
        files: path in the bundle -> the file to copy.
        index: text of the index.
    """
    for name, path in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).write_text(index, encoding="utf-8")


def write_zip(file: BinaryIO, files: Mapping[str, Path], index: str) -> None:
    """Writes a bundle as a zip file without compression: the bytes follow from names and contents.

    Args:
        file: the opened file.
        files: path in the bundle -> the file to copy.
        index: text of the index.
    """
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(zipfile.ZipInfo(INDEX), index)
        for name, path in sorted(files.items()):
            entry = zipfile.ZipInfo(name)
            entry.file_size = path.stat().st_size
            with opened.open(entry, "w") as target, path.open("rb") as source:
                shutil.copyfileobj(source, target, _CHUNK)


def _described(name: str, files: Mapping[str, Path]) -> dict[str, Any]:
    path = files[name]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": name, "bytes": path.stat().st_size, "sha256": digest}
