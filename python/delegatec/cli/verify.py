# SPDX-License-Identifier: Apache-2.0
"""`delegatec verify`: compares a `.pte` on this host with its `.pt2` in eager mode."""

from __future__ import annotations

import argparse
import math
import sys

from delegatec.cli.environment import check_environment
from delegatec.cli.trusted import add_trusted_argument

INPUTS = ("program", "pte", "ptd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--program", required=True, metavar="IN.pt2", help="the exported program (.pt2)")
    add_trusted_argument(parser)
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program to run (.pte)")
    parser.add_argument("--ptd", default="", metavar="IN.ptd", help="the program's external weights (.ptd)")
    parser.add_argument(
        "--backend", action="append", default=[], metavar="MODULE:ATTRIBUTE", help="backend plug-in"
    )
    parser.add_argument(
        "--import-path", action="append", default=[], metavar="DIR", help="import path of the plug-ins"
    )
    parser.add_argument(
        "--atol", type=tolerance, default=1e-5, help="absolute tolerance (default: %(default)s)"
    )
    parser.add_argument(
        "--rtol", type=tolerance, default=1e-5, help="relative tolerance (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds", type=count, default=3, help="random inputs besides the examples (default: 3)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the program, prints a table of the outputs, and fails if any output is wrong."""
    check_environment()
    from delegatec.backends import builtin_backends
    from delegatec.diagnostics import DelegatecError
    from delegatec.frontend import archive
    from delegatec.verify.verification import verify_program

    sys.path[:0] = arguments.import_path
    registry = builtin_backends()
    for backend in arguments.backend:
        registry.resolve(backend)
    model = archive.load(arguments.program, trusted=arguments.trusted)
    result = verify_program(
        arguments.pte,
        model.methods,
        registry,
        ptd=arguments.ptd or None,
        constant_methods=model.constant_methods,
        atol=arguments.atol,
        rtol=arguments.rtol,
        seeds=arguments.seeds,
    )
    print(result.table())
    if result.diagnostics:
        raise DelegatecError(result.diagnostics)
    return 0


def tolerance(text: str) -> float:
    """Parses a tolerance."""
    value = float(text)
    # Nothing differs by more than NaN or infinity: a test with either could not fail.
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text}: expected a finite number of at least 0")
    return value


def count(text: str) -> int:
    """Parses a count."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected an integer of at least 0")
    return value
