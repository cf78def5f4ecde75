# SPDX-License-Identifier: Apache-2.0
"""The contents of a `.ptd`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from delegatec.program.reader import read_flat_tensors


@dataclass(frozen=True)
class DataEntry:
    """An entry: dtype and shape (empty for bytes that are not a tensor), its location, and its hash."""

    key: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class DataFileContents:
    """The contents of a data file, in file order."""

    bytes: int
    entries: tuple[DataEntry, ...]


def inspect_data_file(ptd: Path | str) -> DataFileContents:
    """Reads and summarizes a data file.

    Raises:
        DelegatecError: DC35x, it cannot be read.
    """
    file = read_flat_tensors(ptd)
    return DataFileContents(
        file.file_bytes,
        tuple(
            DataEntry(
                key,
                entry.shape.kind.name if entry.shape else "",
                entry.shape.sizes if entry.shape else (),
                entry.offset,
                len(entry.data),
                hashlib.sha256(entry.data).hexdigest(),
            )
            for key, entry in file.entries.items()
        ),
    )
