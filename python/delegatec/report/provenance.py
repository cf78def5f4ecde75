# SPDX-License-Identifier: Apache-2.0
"""The inputs of a program's build: digests of files, and the wheels on the import path."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from delegatec.report.decoding import Size
from wheel_locks import locked_digests, normalized


@dataclass(frozen=True)
class InputFile:
    """A file that the program was built from.

    Attributes:
        role: "program" for the exported program, or the option that names the file.
        name: its name, without directory.
        bytes: its size.
        sha256: its digest, in hexadecimal digits.
    """

    role: str
    name: str
    bytes: Size
    sha256: str


@dataclass(frozen=True)
class Wheel:
    """A distribution on the import path of the lowering: of the compiler, its tools, or a plug-in.

    Attributes:
        name: its normalized name.
        version: its version.
        sha256: the wheel's digest if its directory has a lock with one, else empty.
    """

    name: str
    version: str
    sha256: str


class InputDigests:
    """Digests of files, which a thread computes while the program is lowered.

    An archive with large weights takes seconds to read, most of them outside of Python.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        """Starts the thread.

        Args:
            files: role, as in `InputFile` -> path.
        """
        self._files: list[InputFile] = []
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=(dict(files),), daemon=True)
        self._thread.start()

    def _run(self, files: dict[str, str]) -> None:
        try:
            self._files = [_digested(role, Path(path)) for role, path in files.items()]
        except OSError as error:
            self._error = error

    def files(self) -> list[InputFile]:
        """Waits for the digests; raises OSError if a file cannot be read."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._files


def _digested(role: str, path: Path) -> InputFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return InputFile(role, path.name, file.tell(), digest)


def wheels_on(import_path: Iterable[str]) -> list[Wheel]:
    """Returns the distributions in directories, sorted by name; of several with one name, the first.

    They follow from the directories, not from what was imported: a worker has imported more than others.
    """
    found: dict[str, Wheel] = {}
    for folder in map(Path, import_path):
        digests = locked_digests(folder)
        for information in sorted(folder.glob("*.dist-info")):
            name, _, version = information.name.removesuffix(".dist-info").partition("-")
            name = normalized(name)
            found.setdefault(name, Wheel(name, version, digests.get((name, version), "")))
    return [found[name] for name in sorted(found)]
