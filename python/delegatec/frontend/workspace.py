# SPDX-License-Identifier: Apache-2.0
"""Machine-independent names of source files, and user frames in tracebacks."""

from __future__ import annotations

import linecache
import os
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from types import TracebackType
from typing import Final

from delegatec.diagnostics import SourceLocation

_PACKAGES: Final = ("site-packages/", "dist-packages/")
# Libraries whose frames are irrelevant to the model.
_MACHINERY: Final = ("site-packages/torch/", "dist-packages/torch/")
_STANDARD_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_COMPILER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Frames of the compiler below those of the user or of a library: delegates inside a model, layers with stored
# weights inside a network of transformers.
_TRANSPARENT: Final = (
    os.path.join(_COMPILER, "delegation", "delegates", ""),
    os.path.join(_COMPILER, "language", ""),
    *(
        os.path.join(_COMPILER, "edge", "legalize", "rules", f"{name}.py")
        for name in ("grouped", "recurrent")
    ),
    *(
        os.path.join(_COMPILER, "frontend", f"{name}.py")
        for name in ("composite_functions", "expert_operators", "loop_operands", "recurrent_functions")
    ),
)
_GENERATED: Final = re.compile(r"^bazel-out/[^/]+/bin/")
_STACK_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')


@dataclass(frozen=True)
class Workspace:
    """The location of the user's files.

    Attributes:
        root: absolute path of the workspace; in a Bazel action, the working directory.
        import_roots: absolute paths that the user's modules are imported from.
    """

    root: str
    import_roots: tuple[str, ...] = ()

    @staticmethod
    def at(root: str, import_paths: Iterable[str] = ()) -> Workspace:
        """Returns a workspace for paths relative to the working directory."""
        return Workspace(os.path.abspath(root), tuple(os.path.abspath(path) for path in import_paths))

    def relative(self, path: str) -> str:
        """Returns the name of a file relative to the workspace, sandbox or installation."""
        path = os.path.abspath(path)
        for root in (self.root, *self.import_roots):
            if path.startswith(root.rstrip(os.sep) + os.sep):
                path = os.path.relpath(path, root)
                break
        for folder in _PACKAGES:
            if folder in path:
                return folder + path.rpartition(folder)[2]
        path = _GENERATED.sub("", path)
        return os.path.basename(path) if os.path.isabs(path) else path

    def frames(self, trace: TracebackType | None) -> list[SourceLocation]:
        """Returns the frames of user and library code in a traceback, outermost first."""
        frames = (
            SourceLocation(frame.filename, frame.lineno or 0, frame.name, frame.line or "")
            for frame in traceback.extract_tb(trace)
        )
        return self._relevant(frames)

    def stack_trace(self, text: str) -> str:
        """Returns a node's stack trace in torch's format, with relevant frames and relative names only."""
        return "\n".join(
            f'  File "{frame.file}", line {frame.line}, in {frame.function}\n    {frame.text}'
            for frame in self._relevant(_parse(text))
        )

    def recorded_frames(self, text: str) -> list[traceback.FrameSummary]:
        """Returns the frames of a node's stack trace, without internal ones."""
        return [
            traceback.FrameSummary(frame.file, frame.line, frame.function, lookup_line=False, line=frame.text)
            for frame in _parse(text)
            if _name(self, frame.file) is not None
        ]

    def line(self, path: str, line: int, function: str = "") -> SourceLocation:
        """Returns the location of a line of a file."""
        return SourceLocation(self.relative(path), line, function, linecache.getline(path, line).strip())

    def user_frames(self, stack: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
        """Returns the frames on a stack below the compiler's own, without internal ones."""
        frames: list[traceback.FrameSummary] = []
        for frame in reversed(list(stack)):
            if frame.filename.startswith(_TRANSPARENT):
                continue
            if frame.filename.startswith(_COMPILER):
                break
            if _name(self, frame.filename) is not None:
                frames.append(frame)
        return frames[::-1]

    def _relevant(self, frames: Iterable[SourceLocation]) -> list[SourceLocation]:
        named = [(frame, _name(self, frame.file)) for frame in frames]
        return [replace(frame, file=name) for frame, name in named if name is not None]


@lru_cache(maxsize=4096)
def _name(workspace: Workspace, file: str) -> str | None:
    """Returns the relative name of a source file; None for torch, the standard library and the compiler."""
    path = os.path.abspath(file)
    installed = any(folder in path for folder in _PACKAGES)
    if (
        file.startswith("<")
        or path.startswith(_COMPILER)
        or (path.startswith(_STANDARD_LIBRARY) and not installed)
    ):
        return None
    name = workspace.relative(path)
    return None if name.startswith(_MACHINERY) else name


def _parse(stack_trace: str) -> list[SourceLocation]:
    frames: list[SourceLocation] = []
    for line in stack_trace.splitlines():
        match = _STACK_FRAME.search(line)
        if match:
            frames.append(SourceLocation(match["file"], int(match["line"]), match["function"]))
        elif frames and not frames[-1].text:
            frames[-1] = replace(frames[-1], text=line.strip())
    return frames


def preferred(frames: list[SourceLocation]) -> SourceLocation | None:
    """Returns the frame to show: the user's innermost, with the innermost of all as `via`."""
    own = [frame for frame in frames if not frame.file.startswith(_PACKAGES)]
    if not frames or not own or own[-1] is frames[-1]:
        return frames[-1] if frames else None
    return replace(own[-1], via=str(frames[-1]))
