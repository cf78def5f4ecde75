# SPDX-License-Identifier: Apache-2.0
"""Source locations of graph nodes, read from the stack traces that torch.export records."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from delegatec.diagnostics import SourceLocation

_FRAME = re.compile(
    # what is in <> is made by a tracer, and its names differ from run to run
    r'^\s*File "(?P<file>[^"<][^"]*)", line (?P<line>\d+), in (?P<function>.+)'
    r'(?:\n(?!\s*File ")(?P<text>.*))?$',
    re.MULTILINE,
)
_LIBRARY = re.compile(r"(?:^|/)((?:site|dist)-packages/.*)$")
# Frames that say nothing to a user: torch's, and the call of a delegate that is a part of the model.
_INNER = re.compile(
    r"(?:^|/)(?:site|dist)-packages/torch/|(?:^|/)delegatec/delegation/lowered_(?:module|program)\.py$"
)


@lru_cache(maxsize=4096)
def location_of(stack_trace: str | None) -> SourceLocation | None:
    """The frame to show a user for one recorded stack trace.

    That is the innermost frame outside of installed packages, with the innermost of all frames but torch's as
    `via`: an operator deep in a library's model is reported at the line of the user that called it.

    Args:
        stack_trace: `node.meta["stack_trace"]`, outermost frame first.
    """
    frames = [
        _location(match) for match in _FRAME.finditer(stack_trace or "") if not _INNER.search(match["file"])
    ]
    if not frames:
        return None
    innermost = frames[-1]
    own = [frame for frame in frames if not _LIBRARY.search(frame.file)]
    if not own or own[-1] is innermost:
        return innermost
    return replace(own[-1], via=str(innermost))


def _location(match: re.Match[str]) -> SourceLocation:
    library = _LIBRARY.search(match["file"])
    file = library[1] if library else match["file"]
    return SourceLocation(file, int(match["line"]), match["function"], (match["text"] or "").strip())
