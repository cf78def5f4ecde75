# SPDX-License-Identifier: Apache-2.0
"""Plays a mistake: each in a copy of this process, which has imported torch and the compiler."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mistake import Mistake
from workspace import make_workspace

from delegatec.backends import builtin_backends
from delegatec.cli.main import main
from delegatec.cli.worker import warm_up
from delegatec.diagnostics import DelegatecError

_PRELOADED: Final = ("delegatec.delegation.testing", "delegatec.quantize", "delegatec.verify")
GOOD = """
import torch, delegatec

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).sin()

def build():
    return delegatec.Model(Net(), (torch.ones(2, 3),))
"""


@dataclass(frozen=True)
class Played:
    """What the user got: exit code, text, and the files that are new or changed."""

    code: int
    text: str
    files: frozenset[str]


def prepare(folder: Path) -> None:
    """Fills a folder with good.pt2, good.pte, good.ptd, and mps.pte with its manifest and debug map."""
    warm_up()
    # Otherwise, each copy of this process would compile the sources that it imports.
    builtin_backends()
    for module in _PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    make_workspace(folder)
    (folder / "good.py").write_text(GOOD)
    for command in (
        ("export", "--entry=good:build", "--source=good.py", "--program=good.pt2"),
        ("lower", "--program=good.pt2", "--pte=good.pte"),
        (
            *("lower", "--program=good.pt2", "--pte=mps.pte", "--backend=mps"),
            *("--debug=mps.json", "--manifest=mps.manifest.json"),
        ),
        ("lower", "--program=good.pt2", "--pte=external.pte", "--external-weights"),
        ("weights", "--program=good.pt2", "--ptd=good.ptd"),
    ):
        played = play(Mistake("", "", (), command), folder)
        assert played.code == 0, played.text


def play(mistake: Mistake, folder: Path, prepared: Path | None = None) -> Played:
    """Makes a mistake in a folder."""
    if prepared is not None:
        shutil.copytree(prepared, folder, dirs_exist_ok=True)
    for name, content in mistake.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    if mistake.first:
        first = play(Mistake("", "", (), mistake.first), folder)
        assert first.code == 0, first.text
    before = _contents(folder)
    # A pipe, since a mistake may limit the size of files.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.close(reader)
            code = _run(mistake, folder, writer)
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with open(reader, "rb") as output:
        text = output.read().decode(errors="surrogateescape")
    _, status = os.waitpid(child, 0)
    after = _contents(folder)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    return Played(os.waitstatus_to_exitcode(status), text, frozenset(changed))


def _run(mistake: Mistake, folder: Path, output: int) -> int:
    os.chdir(folder)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
    sys.path.insert(0, str(folder))
    mistake.before()
    if mistake.command:
        return main(mistake.command)
    try:
        exec(compile(mistake.script, "script.py", "exec"), {"__name__": "__main__"})
    except DelegatecError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
