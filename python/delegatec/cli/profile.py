# SPDX-License-Identifier: Apache-2.0
"""`delegatec profile`: prints where a program spends its time, from an ETDump that its runtime recorded."""

from __future__ import annotations

import argparse
import sys

from delegatec.cli.documents import read_debug_map
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.plugin_arguments import add_plugin_arguments, registry_of

INPUTS = ("pte", "debug", "etdump")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program that ran")
    parser.add_argument("--debug", required=True, metavar="IN.json", help="debug map of `lower --debug`")
    parser.add_argument(
        "etdump",
        metavar="IN.etdump",
        help="what the runtime recorded: the bytes of ETDumpGen::get_etdump_data()",
    )
    parser.add_argument("--method", default="", help="the method that ran, if the program has several")
    parser.add_argument(
        "--by",
        default="line",
        choices=("line", "module", "operator", "kernel", "step"),
        help="rows of the table (default: line)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    add_plugin_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the profile."""
    check_environment()
    from delegatec.profile.attribution import profile_of
    from delegatec.profile.etdump import read_etdump
    from delegatec.profile.table import format_profile, profile_json
    from delegatec.program.reader import read_program

    registry = registry_of(arguments)
    program = read_program(arguments.pte)
    debug = read_debug_map(arguments.debug, program, "--debug")
    names = [name for name in debug["methods"] if any(method.name == name for method in program.methods)]
    name = arguments.method or ("forward" if "forward" in names else names[0] if names else "")
    if name not in names:
        raise CommandLineError(f"--method {name}: expected one of {', '.join(names)}")
    profile = profile_of(
        read_etdump(arguments.etdump), program.method(name), debug["methods"][name], registry
    )
    sys.stdout.write(
        profile_json(profile) if arguments.format == "json" else format_profile(profile, arguments.by)
    )
    return 0
