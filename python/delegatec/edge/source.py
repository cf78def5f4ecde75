# SPDX-License-Identifier: Apache-2.0
"""Source locations of graph nodes, from the stack traces of torch.export."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from delegatec.diagnostics import SourceLocation

_FRAME = re.compile(
    # tracers generate names in <>, which differ between runs; numbers of lines have nine digits at most
    r'^\s*File "(?P<file>[^"<][^"]*)", line (?P<line>\d{1,9}), in (?P<function>.+)'
    r'(?:\n(?!\s*File ")(?P<text>.*))?$',
    re.MULTILINE,
)
_LIBRARY = re.compile(r"(?:^|/)((?:site|dist)-packages/.*)$")
# Frames that are irrelevant to users: torch's, and calls of delegates inside the model.
_INNER = re.compile(
    r"(?:^|/)(?:site|dist)-packages/torch/|(?:^|/)delegatec/delegation/delegates/lowered_(?:module|program)\.py$"
)


@lru_cache(maxsize=4096)
def location_of(stack_trace: str | None) -> SourceLocation | None:
    """Returns the frame to show for a recorded stack trace.

    This is the innermost frame outside installed packages, with the innermost of all frames except torch's as
    `via`: an operator deep in a library's model is reported at the user's line that calls it.

    Args:
        stack_trace: `node.meta["stack_trace"]`, outermost frame first.
    """
    frames = [frame for frame in frames_of(stack_trace or "") if not _INNER.search(frame.file)]
    if not frames:
        return None
    innermost = frames[-1]
    own = [frame for frame in frames if not _LIBRARY.search(frame.file)]
    if not own or own[-1] is innermost:
        return _shown(innermost)
    return replace(_shown(own[-1]), via=str(_shown(innermost)))


def frames_of(stack_trace: str) -> tuple[SourceLocation, ...]:
    """Returns all frames of a stack trace, outermost first."""
    return tuple(
        SourceLocation(match["file"], int(match["line"]), match["function"], (match["text"] or "").strip())
        for match in _FRAME.finditer(stack_trace)
    )


def _shown(frame: SourceLocation) -> SourceLocation:
    """Returns a frame with the name of a library's file relative to its installation."""
    library = _LIBRARY.search(frame.file)
    return replace(frame, file=library[1]) if library else frame
