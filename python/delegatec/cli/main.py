# SPDX-License-Identifier: Apache-2.0
"""The verbs of `python -m delegatec`, and their exit codes.

Exit codes: 0 success; 1 invalid input (diagnostics on stderr, no output files); 2 invalid command line; 70 a
bug in the compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Final, NoReturn

from delegatec.cli.errors import CommandLineError
from delegatec.diagnostics import DelegatecError, Diagnostic, render

# Verb -> its purpose. Its module, delegatec.cli.<verb>, has add_arguments(parser), run(args) -> exit code,
# and OUTPUTS, the names of the arguments for output files.
VERBS: Final = {
    "export": "export the model that an entry function returns to a canonical .pt2",
    "lower": "lower a .pt2 to a .pte program, for backends or for the portable kernels",
    "weights": "write the weights of a .pt2 to a .ptd that programs of any backend share",
    "verify": "run a .pte on this host and compare it with its .pt2 in eager mode",
    "inspect": "print the contents of a .pte, .ptd or .pt2 file, or of a delegate's blob",
}
EXIT_USER_ERROR: Final = 1
EXIT_COMMAND_LINE: Final = 2
EXIT_BUG: Final = 70


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandLineError(message)


def main(argv: Sequence[str]) -> int:
    """Runs one verb, or the worker.

    Args:
        argv: the arguments; `@FILE` and `--flagfile=FILE` are replaced with the file's lines.

    Returns:
        The exit code.
    """
    if "--persistent_worker" in argv:
        from delegatec.cli import worker

        return worker.serve(run_verb, worker.warm_up)
    return run_verb(argv)


def run_verb(argv: Sequence[str]) -> int:
    """Runs one verb, and reports failures on stderr."""
    label = ""
    outputs: list[str] = []
    try:
        arguments, module = _parse(expand(argv))
        label = getattr(arguments, "label", "")
        outputs = [path for name in getattr(module, "OUTPUTS", ()) if (path := getattr(arguments, name))]
        with warnings.catch_warnings():
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            code: int = module.run(arguments)
        return code
    except CommandLineError as error:
        print(f"delegatec: error DC001: {error}\n  help: run python -m delegatec --help", file=sys.stderr)
        return EXIT_COMMAND_LINE
    except SystemExit as error:  # argparse, behind --help
        return error.code if isinstance(error.code, int) else 0
    except DelegatecError as error:
        print(render(error.diagnostics, label), file=sys.stderr)
    except OSError as error:
        if error.filename is None:
            _report_bug(label)
            _discard(outputs)
            return EXIT_BUG
        reason = f"{error.filename}: {error.strerror}"
        print(render([Diagnostic("DC002", reason, help="check the path")], label), file=sys.stderr)
    except Exception:  # noqa: BLE001 - the last resort
        _report_bug(label)
        _discard(outputs)
        return EXIT_BUG
    _discard(outputs)
    return EXIT_USER_ERROR


def expand(argv: Sequence[str]) -> list[str]:
    """Expands `@FILE` and `--flagfile=FILE` to the lines of the file."""
    expanded: list[str] = []
    for argument in argv:
        path = argument[1:] if argument.startswith("@") else argument.removeprefix("--flagfile=")
        if path == argument:
            expanded.append(argument)
            continue
        try:
            with open(path, encoding="utf-8") as file:
                expanded += file.read().splitlines()
        except OSError as error:
            raise CommandLineError(f"cannot read parameter file {path}: {error.strerror}") from error
    return expanded


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, ModuleType]:
    parser = _Parser(
        prog="delegatec", description="Compiles PyTorch models to .pte programs.", allow_abbrev=False
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    wanted = next((argument for argument in argv if argument in VERBS), None)
    module = None
    for verb, purpose in VERBS.items():
        subparser = verbs.add_parser(verb, help=purpose, description=purpose, allow_abbrev=False)
        if verb == wanted:
            module = importlib.import_module(f"delegatec.cli.{verb}")
            module.add_arguments(subparser)
    arguments = parser.parse_args(argv)
    assert module is not None
    return arguments, module


def _discard(outputs: Sequence[str]) -> None:
    for path in outputs:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _report_bug(label: str) -> None:
    traceback.print_exc()
    prefix = f"{label}: " if label else ""
    print(f"{prefix}this is a bug in delegatec, not in the model: please report it", file=sys.stderr)
