# SPDX-License-Identifier: Apache-2.0
"""`--print-after` and `--verify-passes`: print or verify programs after passes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean

if TYPE_CHECKING:
    from delegatec.edge import EdgeProgram

_ALL: Final = "all"


@contextmanager
def printing_after(names: Collection[str]) -> Iterator[None]:
    """Within this scope, prints each program on stderr after the named passes.

    Args:
        names: names of passes and stages of lowering, or "all".

    Raises:
        DelegatecError: DC416, one diagnostic for each name that is not that of a pass that ran.
    """
    if not names:
        yield
        return
    from delegatec.edge import print_program
    from delegatec.edge.passes.pass_manager import observed_passes

    ran: dict[str, None] = {}

    def show(name: str, program: EdgeProgram, changed: bool) -> None:
        ran[name] = None
        if name in names or _ALL in names:
            graph = f":\n{print_program(program, rules=True)}"
            text = graph if changed else f" did not change {program.method}\n"
            print(f"# {name}{text}", end="", file=sys.stderr)

    with observed_passes(show):
        yield
    unknown = [name for name in names if name not in ran and name != _ALL]
    if unknown:
        raise DelegatecError(_unknown(name, ran) for name in unknown)


@contextmanager
def verifying_passes(is_wanted: bool) -> Iterator[None]:
    """Within this scope, verifies each program after each pass that changed it, if that is wanted.

    Raises:
        AssertionError: a pass left an invalid program; it names the pass.
    """
    if not is_wanted:
        yield
        return
    from delegatec.edge.passes.pass_manager import observed_passes, verify_after

    with observed_passes(verify_after):
        yield


def _unknown(name: str, ran: Collection[str]) -> Diagnostic:
    near = did_you_mean(name, ran)
    return Diagnostic(
        "DC416",
        f"--print-after={name}: no pass of this name ran",
        expected="" if near else ", ".join((_ALL, *ran)),
        help=near,
    )
