# SPDX-License-Identifier: Apache-2.0
"""Arguments of verbs that read a `.pt2`: modules that register custom operators, and the app's kernels."""

from __future__ import annotations

import argparse


def add_kernel_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares `--kernel-module` and `--kernel`."""
    add_module_argument(parser)
    parser.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="NAME",
        help="kernel of a custom operator that the app registers, such as dsp::window.out; may be repeated",
    )


def add_module_argument(parser: argparse._ActionsContainer) -> None:
    """Declares `--kernel-module`."""
    parser.add_argument(
        "--kernel-module",
        action="append",
        default=[],
        metavar="MODULE",
        help="Python module that registers custom operators, such as dsp.operators; may be repeated",
    )


def import_operators(arguments: argparse.Namespace) -> None:
    """Imports the modules of `--kernel-module`, which the import path contains.

    Raises:
        DelegatecError: DC211, for the first module that cannot be imported.
    """
    if not arguments.kernel_module:
        return
    from delegatec.delegation.plugin_import import import_module
    from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation

    for name in arguments.kernel_module:

        def refuse(problem: str, help: str, where: SourceLocation | None, name: str = name) -> DelegatecError:
            message = f"module {name!r} does not register operators: {problem}"
            return DelegatecError([Diagnostic("DC211", message, where, help=help)])

        import_module(name, refuse)
