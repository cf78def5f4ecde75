# SPDX-License-Identifier: Apache-2.0
"""Exports whose libraries are imported before: the same bytes, and no import that could change them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, cast

import pytest
from compiled_sources import compiled_import_path

from delegatec.cli.preloaded_worker import libraries_of
from delegatec.cli.worker_protocol import WorkRequest, read_message

MODEL: Final = """
import torch
import library

INITIAL = torch.rand(3)

def build():
    from delegatec import Model
    return Model(library.Net(INITIAL), (torch.ones(3),))
"""
LIBRARY: Final = """
import os, sys, threading
import torch

with open("imports.txt", "a") as log:
    log.write("library\\n")

class Net(torch.nn.Module):
    def __init__(self, initial):
        super().__init__()
        self.weight = torch.nn.Parameter(initial + torch.rand(3))

    def forward(self, x):
        return x * self.weight
"""


class Worker:
    """The compiler as a worker, in a directory with a model and its library."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lib").mkdir()
        path = ":".join(map(os.path.abspath, compiled_import_path("delegatec").split(":")))
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "delegatec", "--persistent_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=dict(os.environ, PYTHONPATH=path, PYTHONHASHSEED="0"),
        )

    def export(self, library: str, model: str = MODEL) -> str:
        """Exports the model, and returns the hash of the file."""
        arguments = [
            "export",
            "--entry=model:build",
            "--source=model.py",
            "--import-path=lib",
            "--program=a.pt2",
        ]
        return self.request(arguments, {"model.py": model, "lib/library.py": library}, "a.pt2")

    def copies(self) -> int:
        """Returns how many copies of the worker run."""
        process = self.process.pid
        return len(Path(f"/proc/{process}/task/{process}/children").read_text().split())

    def request(self, arguments: Sequence[str], files: Mapping[str, str], output: str) -> str:
        """Runs the compiler with some inputs, and returns the hash of an output, which it deletes."""
        body = b""
        for name, text in files.items():
            (self.folder / name).write_text(text)
            digest = hashlib.sha256(text.encode()).hexdigest().encode()
            body += _field(2, _field(1, name.encode()) + _field(2, digest))
        body += b"".join(_field(1, text.encode()) for text in arguments)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(_length(body) + body)
        self.process.stdin.flush()
        assert read_message(cast(BinaryIO, self.process.stdout)) is not None
        program = self.folder / output
        digest = hashlib.sha256(program.read_bytes()).digest()
        program.unlink()
        return digest.hex()

    def imports(self) -> int:
        """Returns how often the library was imported since the last call."""
        log = self.folder / "imports.txt"
        count = len(log.read_text().splitlines())
        log.unlink()
        return count


def _length(content: bytes) -> bytes:
    size = len(content)
    return bytes([size & 0x7F | 0x80, size >> 7]) if size >= 0x80 else bytes([size])


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _length(content) + content


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.process.wait() == 0


def test_libraries_are_imported_once_and_results_are_the_same(worker: Worker) -> None:
    first = worker.export(LIBRARY)
    assert [worker.export(LIBRARY) for _ in range(3)] == [first] * 3
    assert worker.imports() == 2  # the first export, and the process that the others are forked from
    assert worker.export(LIBRARY, MODEL.replace("ones(3)", "ones(1)")) != first
    assert not (worker.folder / "imports.txt").exists()  # the model itself is imported each time
    assert worker.export(LIBRARY.replace("x * self", "x + self")) != first
    assert worker.imports() == 1
    assert worker.export(LIBRARY) == first


@pytest.mark.parametrize(
    "effect",
    [
        "torch.rand(1)",
        "print(1)",
        "os.environ['A'] = 'b'",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    ],
)
def test_libraries_with_other_effects_are_imported_each_time(effect: str, worker: Worker) -> None:
    first = worker.export(LIBRARY + effect)
    assert [worker.export(LIBRARY + effect) for _ in range(2)] == [first] * 2
    assert worker.imports() == 4  # once in vain


def test_backends_are_imported_once_and_results_are_the_same(worker: Worker) -> None:
    worker.export(LIBRARY)
    export = ["export", "--entry=model:build", "--source=model.py", "--import-path=lib", "--program=b.pt2"]
    worker.request(export, {"lib/library.py": LIBRARY}, "b.sources.json")
    before = worker.copies()

    def lower(backend: str, package: str) -> str:
        flags = [f"--backend={backend}", f"--builtin-backends={package}", "--pte=b.pte"]
        # in a build, the sources of the backend
        files = {f"{package}.txt": package}
        return worker.request(["lower", "--program=b.pt2", "--sources=", *flags], files, "b.pte")

    several = (("mps", "mps"), ("vulkan", "vulkan"), ("tosa", "arm"))
    first = [lower(*each) for each in several]
    assert len(set(first)) == 3
    assert worker.copies() == before
    for _ in range(2):
        assert [lower(*each) for each in several] == first
        assert worker.copies() == before + 3


def test_the_same_libraries_have_the_same_key() -> None:
    def key(*inputs: tuple[str, bytes], paths: tuple[str, ...] = ("lib",), verb: str = "export") -> object:
        flags = ["--source=a.py", "--data=b", *(f"--import-path={path}" for path in paths)]
        found = libraries_of(WorkRequest((verb, *flags), inputs))
        return found and found.key

    library = ("lib/c.py", b"1")
    assert key(library) is not None
    assert key(library) == key(("a.py", b"2"), library, ("b", b"3"), ("out/a-0.params", b"4"))
    assert key(library) != key(("lib/c.py", b"2"))
    assert key(library) != key(library, ("lib/d.py", b"1"))
    assert key(library) != key(library, paths=("lib", "."))
    assert key(library, verb="lower") != key(library)
    site = ("wheels/site", b"")
    assert key(site, ("wheels/site.manifest", b"1")) != key(site, ("wheels/site.manifest", b"2")) is not None
    # as of the interpreter
    assert key(site, ("wheels/other.manifest", b"1")) is not None
    assert key(site, ("site.manifest", b"1")) is None
    assert key(library, site) is None
    assert key() is None and key(("lib/c.py", b"")) is None
