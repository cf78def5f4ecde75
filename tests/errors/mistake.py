# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of mistakes: what a user does, and what the compiler must answer."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DATA: Final = ("pkg/checkpoint.safetensors", "pkg/damaged.pt", "pkg/missing.pt")
HEAD: Final = "import torch, delegatec\nfrom torch import nn\nfrom torch.export import Dim\n"
_NET: Final = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
{forward}

def build():
    return delegatec.Model({arguments})
"""
_PYTHON: Final = (
    HEAD
    + """import io
from delegatec.delegation import *
from delegatec.program import *
NET, X = nn.Linear(3, 3), (torch.ones(2, 3),)

def exported(shapes=None):
    return delegatec.export(delegatec.Model(NET, X, dynamic_shapes=shapes))

"""
)
# A backend that delegates everything. Its class attributes and methods are replaced by those of a mistake.
_PLUGIN: Final = """import torch
from delegatec.delegation import *
from delegatec.delegation.testing import EagerBackend, SupportsAllBut

class Npu(EagerBackend):
    name, id = "npu", "NpuBackend"
    def __init__(self):
        super().__init__("NpuBackend")
    def partitioner(self, specs):
        return SupportsAllBut(backend_id=self.id)
{}

BACKEND = Npu()
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake.

    Attributes:
        does: what the user does, as the page of errors says it.
        code: of the first diagnostic; "" for a message without a code.
        words: phrases of the message.
        command: arguments of `python -m delegatec`; empty if `script` is run.
        script: a user's script.
        files: path -> content, written before.
        first: arguments of a command that succeeds before.
        before: runs in the process of the command, before it; files that it makes are named a or a.*.
        exit: the exit code.
        lines: the largest number of lines of the message.
        recorded: whether the message does not depend on the machine, and is in the page of errors.
    """

    does: str
    code: str
    words: tuple[str, ...]
    command: tuple[str, ...] = ()
    script: str = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    before: Callable[[], object] = lambda: None
    exit: int = 1
    lines: int = 6
    recorded: bool = True


def net(forward: str, init: str = "pass", arguments: str = "Net(), (torch.ones(2, 3),)") -> str:
    """Returns the source of a model, from the bodies of its functions and the arguments of Model."""
    return HEAD + _NET.format(forward=textwrap.indent(forward, " " * 8), init=init, arguments=arguments)


def model(name: str, does: str, code: str, *words: str, **more: Any) -> Mistake:
    """A source file of `models` that `export` rejects."""
    source = f"--source=pkg/{name}.py"
    data = (f"--data={path}" for path in DATA)
    outputs = ("--program=net.pt2", "--signature=net.json", "--import-path=.")
    command = ("export", f"--label=//pkg:{name}", f"--entry={name}:build", source, *data, *outputs)
    return Mistake(does, code, words, command, **more)


def export(
    does: str,
    code: str,
    *words: str,
    source: str = "",
    init: str = "pass",
    forward: str = "return x",
    arguments: str = "Net(), (torch.ones(2, 3),)",
    flags: tuple[str, ...] = (),
    **more: Any,
) -> Mistake:
    """A model that `export` rejects: its source, or parts of one: bodies, and arguments of Model."""
    source = source or net(forward, init, arguments)
    command = ("export", "--label=//pkg:net", "--entry=net:build", "--source=pkg/net.py", "--program=net.pt2")
    files = {"pkg/net.py": source, **more.pop("files", {})}
    return Mistake(does, code, words, (*command, *flags), files=files, **more)


def lower(does: str, code: str, *words: str, flags: tuple[str, ...] = (), **more: Any) -> Mistake:
    """A use of `lower` on a good program."""
    command = ("lower", "--label=//pkg:net", "--program=good.pt2", "--pte=net.pte", *flags)
    return Mistake(does, code, words, command, **more)


def run(does: str, code: str, *words: str, command: str | tuple[str, ...], **more: Any) -> Mistake:
    """A command line; arguments in a string are separated by spaces."""
    return Mistake(does, code, words, tuple(command.split() if isinstance(command, str) else command), **more)


def usage(does: str, *words: str, command: str, **more: Any) -> Mistake:
    """A command line that is invalid: DC001."""
    return run(does, "DC001", *words, command=command, exit=2, **more)


def python(does: str, code: str, *words: str, script: str, **more: Any) -> Mistake:
    """A script that calls Python functions."""
    return Mistake(does, code, words, script=_PYTHON + script + "\n", **more)


def plugin(
    does: str,
    code: str,
    *words: str,
    source: str = "",
    preprocess: str = "",
    verb: str = "lower",
    **more: Any,
) -> Mistake:
    """A backend plug-in with other members, or with the body of `preprocess`."""
    if preprocess:
        source = "def preprocess(self, view, specs):\n" + textwrap.indent(preprocess, "    ")
    lines = "".join(f"    {line}\n" for line in source.splitlines())
    command = f"{verb} --label=//pkg:net --program=good.pt2 --backend=npu:BACKEND --import-path=."
    files = {"npu.py": _PLUGIN.format(lines), **more.pop("files", {})}
    first = ("lower", *command.split()[1:], "--pte=npu.pte")
    if verb == "lower":
        return Mistake(does, code, words, (*first[:-1], "--pte=net.pte"), files=files, **more)
    return Mistake(does, code, words, (verb, *first[1:]), files=files, first=first, **more)
