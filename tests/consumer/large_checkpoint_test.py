# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of 4 GB is linked, not copied, into sandboxes and workers; no process has it in its memory."""

from __future__ import annotations

import json
import os
import re
import stat
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from consumer_workspace import consumer_bazel
from nested_bazel import NestedBazel

ROWS = 1_000_000
COLUMNS = 1024
GIGABYTE = 10**9

MODEL = f"""
import torch

import delegatec


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        with torch.device("meta"):
            self.table = torch.nn.Embedding({ROWS}, {COLUMNS})

    def forward(self, ids):
        return self.table(ids).relu()


def build():
    module = Table()
    delegatec.load_checkpoint(module, "large.safetensors")
    return delegatec.Model(module.eval(), (torch.zeros(1, 4, dtype=torch.int64),))
"""

BUILD = """
load("@rules_delegate//rules:defs.bzl", "exported_program", "portable_program")

exported_program(
    name = "large",
    srcs = ["large.py"],
    data = ["large.safetensors"],
    entry = "large:build",
)

portable_program(
    name = "internal",
    program = ":large",
)

portable_program(
    name = "external",
    external_weights = True,
    program = ":large",
)
"""


def write_sparse_checkpoint(path: Path) -> None:
    """Writes zeros that take no disk space."""
    size = ROWS * COLUMNS * 4
    tensor = {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [0, size]}
    header = json.dumps({"table.weight": tensor}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


class Watch:
    """Looks at large files of a Bazel, and at the memory of its compilers, until the block ends.

    Attributes:
        copies: name of a file -> the inodes of its regular files; a link is none.
        memory: the most bytes of one compiler that are not pages of files.
    """

    def __init__(self, bazel: NestedBazel) -> None:
        self.copies: dict[str, set[int]] = defaultdict(set)
        self.memory = 0
        self._root = bazel.output_user_root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            self._look_at_files()
            self._look_at_processes()

    def _look_at_files(self) -> None:
        for folder, folders, files in os.walk(self._root):
            folders[:] = [name for name in folders if name not in ("external", "install")]
            for path in (Path(folder, name) for name in files):
                with suppress(OSError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode) and status.st_size > GIGABYTE:
                        self.copies[path.name].add(status.st_ino)

    def _look_at_processes(self) -> None:
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                if b"-m\0delegatec" not in (status.parent / "cmdline").read_bytes():
                    continue
                if not (status.parent / "cwd").readlink().is_relative_to(self._root):
                    continue
                if found := re.search(r"^RssAnon:\s+(\d+) kB", status.read_text(), re.MULTILINE):
                    self.memory = max(self.memory, int(found[1]) * 1024)


@pytest.fixture(scope="module")
def bazel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedBazel]:
    with consumer_bazel(tmp_path_factory.mktemp("large")) as bazel:
        folder = bazel.workspace / "large"
        folder.mkdir()
        (folder / "BUILD.bazel").write_text(BUILD)
        (folder / "large.py").write_text(MODEL)
        write_sparse_checkpoint(folder / "large.safetensors")
        yield bazel


@pytest.mark.parametrize("strategy", ["worker", "sandboxed"])
def test_inputs_are_linked(bazel: NestedBazel, strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    mnemonics = ("TorchExport", "DelegateLower", "DelegateWeights")
    strategies = [f"--strategy={mnemonic}={strategy}" for mnemonic in mnemonics]
    bazel.run("clean")
    outputs: set[str] = set()
    for target, output in {"large": "large.pt2", "internal": "internal.pte", "external": "large.ptd"}.items():
        start = time.monotonic()
        with Watch(bazel) as watch:
            bazel.run("build", f"//large:{target}", *strategies)
        seconds = time.monotonic() - start
        with capsys.disabled():
            print(f"{strategy} {output}: {seconds:.0f} s, {watch.memory / 1e6:.0f} MB of memory")
        # The checkpoint is in the source tree, which is not watched; each output is written once, and moved.
        outputs.add(output)
        assert outputs <= watch.copies.keys()
        assert "large.safetensors" not in watch.copies
        assert len(set().union(*watch.copies.values())) == len(outputs), watch.copies
        assert 50e6 < watch.memory < GIGABYTE
