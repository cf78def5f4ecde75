# SPDX-License-Identifier: Apache-2.0
"""Command-line arguments that control a program's layout."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from delegatec.program.options import ProgramOptions

# Flag -> its help. Names and defaults are those of ProgramOptions, which checks the values.
_ALIGNMENTS: Final = {
    "segment_alignment": "alignment of the file's segments in bytes (default: 128)",
    "constant_alignment": "alignment of constants within their segment in bytes (default: 16)",
    "delegate_alignment": "alignment of the delegates' blobs in bytes (default: 16)",
}


def add_layout_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    for name, text in _ALIGNMENTS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, metavar="BYTES", help=f"{text}; a power of two"
        )
    parser.add_argument(
        "--inline-delegates",
        action="store_true",
        help="store the delegates' blobs inside the FlatBuffer instead of in segments",
    )
    for what in ("inputs", "outputs"):
        parser.add_argument(
            f"--no-plan-{what}",
            dest=f"plan_{what}",
            action="store_false",
            help=f"leave the memory of {what} to the caller instead of copying them",
        )
        parser.add_argument(
            f"--channels-last-{what}",
            action="store_true",
            help=f"make all {what} with four dimensions channels-last",
        )

    parser.add_argument(
        "--memory",
        action="append",
        default=[],
        metavar="NAME=BYTES",
        help="a memory for planned values, such as sram=512k; may be repeated, the fastest first",
    )


def layout_options(arguments: argparse.Namespace) -> ProgramOptions:
    """Returns the layout options; those not given have their defaults.

    Raises:
        DelegatecError: DC310 for an invalid value.
    """
    from delegatec.program.options import ProgramOptions, memory_of

    given = {name: getattr(arguments, name) for name in _ALIGNMENTS}
    return ProgramOptions(
        **{name: value for name, value in given.items() if value is not None},
        inline_delegates=arguments.inline_delegates,
        plan_inputs=arguments.plan_inputs,
        plan_outputs=arguments.plan_outputs,
        channels_last_inputs=arguments.channels_last_inputs,
        channels_last_outputs=arguments.channels_last_outputs,
        memories=tuple(map(memory_of, arguments.memory)),
    )
