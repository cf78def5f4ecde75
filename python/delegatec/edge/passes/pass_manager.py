# SPDX-License-Identifier: Apache-2.0
"""Runs passes over an edge program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from delegatec.edge.program import EdgeProgram

# A pass edits the program in place and says whether it changed anything.
Pass = Callable[[EdgeProgram], bool]


def run_passes(program: EdgeProgram, passes: Sequence[Pass], *, rounds: int = 4) -> None:
    """Runs `passes` in order on a program and on its bodies, again and again until none changes anything.

    Args:
        program: edited in place.
        passes: each leaves a valid program behind.
        rounds: the most rounds; passes that are still not done then are left where they are.
    """
    for _ in range(rounds):
        changed = [apply(each) for each in list(program.walk()) for apply in passes]
        if not any(changed):
            return
