# SPDX-License-Identifier: Apache-2.0
"""Models whose weights differ in each build: they come from random numbers without a seed, or the time."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.frontend.eager.chance import clocks, other_chance
from delegatec.frontend.eager.process import Pristine, TaskEndedError
from delegatec.frontend.eager.state import attributes_of, digest
from delegatec.frontend.load import load_model
from delegatec.frontend.model import Model
from delegatec.frontend.session import Session, running
from delegatec.frontend.workspace import Workspace

# numpy and the standard library draw their seeds by `os.urandom`.
_SOURCES: Final = (
    (os, "urandom"),
    (random, "_urandom"),
    (torch, "seed"),
    (torch.random, "seed"),
    *((time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter")),
)
_LIBRARIES: Final = ("site-packages/", "dist-packages/")
_STANDARD: Final = os.path.dirname(os.__file__) + os.sep
_COMPILER: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
# Names in a message.
_MOST: Final = 5


@contextlib.contextmanager
def watched(workspace: Workspace) -> Iterator[list[SourceLocation]]:
    """Yields the user's lines that draw random numbers without a seed, or read the clock, in the scope.

    Many do so for other purposes, such as to print how long a step takes: `unstable_weights` decides.
    """
    lines: list[SourceLocation] = []
    with contextlib.ExitStack() as stack:
        for owner, name in _SOURCES:
            stack.enter_context(patch.object(owner, name, _noted(getattr(owner, name), workspace, lines)))
        yield lines


def _noted(function: Callable[..., Any], workspace: Workspace, lines: list[SourceLocation]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        line = _user_line(workspace)
        if line is not None:
            lines.append(line)
        return function(*args, **kwargs)

    return call


def _user_line(workspace: Workspace) -> SourceLocation | None:
    """Returns the line on the stack that called a library, if it is the user's."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        is_installed = any(folder in file for folder in _LIBRARIES)
        if not (file.startswith(("<", _STANDARD)) or "/numpy/" in file or "/torch/" in file):
            is_own = not is_installed and not file.startswith(_COMPILER)
            return workspace.line(file, frame.f_lineno, frame.f_code.co_name) if is_own else None
        frame = frame.f_back
    return None


def unstable_weights(
    before: Pristine, model: Model, session: Session, entry: str, seed: int, line: SourceLocation
) -> Diagnostic | None:
    """Builds a model once more; returns a problem if its weights differ.

    Args:
        before: the process before the user's code ran.
        model: the model.
        session: the running export.
        entry: name of the function that returned the model.
        seed: its seed.
        line: the user's line that drew a random number or read the clock.
    """
    try:
        again = before.run(_built, session, entry, seed)
    except TaskEndedError:
        return None
    first = _content(model)
    names = [name for name in {**first, **again} if first.get(name) != again.get(name)]
    if not names:
        return None
    shown = ", ".join(f'"{name}"' for name in names[:_MOST])
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return Diagnostic(
        "DC129",
        f"each build has different values of {shown}{more}, from unseeded random numbers or from the time",
        location=line,
        expected="the same model from the same sources and data",
        help="seed the generator with a constant, or load values from a file in `data`",
    )


def _built(_: object, session: Session, entry: str, seed: int) -> dict[str, object]:
    other_chance(clocks())
    with running(session):
        return _content(load_model(session, entry, seed))


def _content(model: Model) -> dict[str, object]:
    """Returns names and digests of the values that an export depends on."""
    module = model.module
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    content: dict[str, object] = {name: digest(value) for name, value in named.items()}
    content |= {name: repr(value) for name, value in attributes_of(module).values.items()}
    for method, each in model.all_methods().items():
        for index, leaf in enumerate(pytree.tree_leaves((each.example_inputs, each.example_kwargs))):
            if isinstance(leaf, torch.Tensor):
                content[f"example input {index} of {method}"] = digest(leaf)
    return content
