# SPDX-License-Identifier: Apache-2.0
"""The flags of `delegatec lower` that determine a program, as the manifest records them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from delegatec.cli.delegation_arguments import add_delegation_arguments
from delegatec.cli.layout import add_layout_arguments

# Where files are does not determine the program.
_NOT_RECORDED: Final = ("help", "import_path")


def recorded_flags(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Returns the flags for delegation and layout that differ from their defaults.

    Args:
        arguments: those of `delegatec lower`.
    """
    flags: list[str] = []
    for action in _parser()._actions:
        value = getattr(arguments, action.dest, action.default)
        if action.dest in _NOT_RECORDED or value == action.default:
            continue
        flag = action.option_strings[0]
        if isinstance(value, bool):
            flags.append(flag)
        else:
            flags += [f"{flag}={each}" for each in (value if isinstance(value, list) else [value])]
    return tuple(flags)


def parsed_flags(flags: Sequence[str]) -> argparse.Namespace:
    """Returns the arguments that recorded flags stand for."""
    return _parser().parse_args(flags)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_delegation_arguments(parser)
    add_layout_arguments(parser)
    return parser
