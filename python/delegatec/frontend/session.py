# SPDX-License-Identifier: Apache-2.0
"""The running export, for functions that user code calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

from delegatec.diagnostics import SourceLocation
from delegatec.frontend.workspace import Workspace

_COMPILER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Session:
    """An export.

    Attributes:
        workspace: the location of the user's files.
        source: path of the model's source file.
        data: paths of the declared data files.
    """

    workspace: Workspace
    source: str = ""
    data: tuple[str, ...] = ()


_current: ContextVar[Session | None] = ContextVar("delegatec_session", default=None)


def current() -> Session | None:
    """Returns the running export; None outside an export, such as in a training script."""
    return _current.get()


@contextmanager
def running(session: Session) -> Iterator[None]:
    """Makes `session` the running export within the block."""
    # Without a network, transformers asks for a model by name for half a minute; a build has none.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    token = _current.set(session)
    process = os.getpid()
    try:
        yield
    finally:
        _current.reset(token)
        if os.getpid() != process:  # a copy of the process, forked by user code
            os._exit(1)


def caller() -> SourceLocation | None:
    """Returns the innermost line on the stack outside this compiler and generated code."""
    frame = calling_frame()
    if frame is None:
        return None
    session = current()
    workspace = session.workspace if session else Workspace.at(os.getcwd())
    return workspace.line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def calling_frame() -> FrameType | None:
    """Returns the frame of `caller`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(("<", _COMPILER)):
        frame = frame.f_back
    return frame
