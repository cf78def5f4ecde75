# SPDX-License-Identifier: Apache-2.0
"""Parsing of command lines."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final, NoReturn

from delegatec.cli.errors import CommandLineError
from delegatec.diagnostics.exceptions import nearest
from delegatec.version import VERSION

# Verb -> its purpose. Its module, delegatec.cli.<verb>, has add_arguments(parser), run(args) -> exit code,
# and the names of its arguments for input files, INPUTS, and for output files, OUTPUTS (if it has any);
# complete(args) sets defaults that depend on other arguments (if there are any).
VERBS: Final = {
    "new": "write the model file and the BUILD file of a first model",
    "export": "export the model that an entry function returns to a canonical .pt2",
    "checkpoint": "store the weights of a checkpoint, quantized or not, for an export of its model",
    "quantize": "quantize the model of a .pt2 by samples of its inputs, to another .pt2",
    "lower": "lower a .pt2 to a .pte program, for backends or for the portable kernels",
    "locate": "add the lines of the model to what lower --unused-inputs wrote",
    "report": "write the manifest and the report of a program from its description by lower",
    "explain": "print what was delegated of a program, what was not and why, and what to do about it",
    "index": "write one page over many programs from their manifests",
    "bundle": "collect programs, weights and licenses in a directory or a .zip, with an index",
    "operators": "list what an app links for some programs, for ExecuTorch's selective build",
    "header": "write the C++ header of a program, and check what its app links",
    "weights": "write the weights of a .pt2 to a .ptd that programs of any backend share",
    "adapter": "write the weights of an adapter (LoRA) to a .ptd that programs of its language model load",
    "budget": "compare the sizes and estimates of a program with limits",
    "golden": "compare a program with what was recorded of it, or record it",
    "verify": "run a .pte on this host and compare it with its .pt2 in eager mode",
    "accuracy": "compute a metric of a program over a dataset, next to that of a baseline program",
    "profile": "print where a program spends its time, on this host or a device",
    "generate": "generate text with the program of a language model, and compare it with the model in float",
    "transcribe": "transcribe recordings with a program of speech, and compare it with the model in float",
    "extract": "write the blobs of a .pte's delegates, with their texts, to a .zip",
    "diff": "print how two .pte programs differ",
    "inspect": "print the contents of a .pte, .ptd or .pt2 file, or of a delegate's blob",
}
# Flags are short: at the usual similarity, --precision is --reasons.
_SIMILAR: Final = 0.7


@dataclass(frozen=True)
class Command:
    """A parsed command line.

    Attributes:
        module: the module of the verb.
        arguments: the verb's arguments.
    """

    module: ModuleType
    arguments: argparse.Namespace

    @property
    def label(self) -> str:
        """Name of the target in messages; may be empty."""
        return getattr(self.arguments, "label", "")

    def run(self) -> int:
        """Runs the verb and returns its exit code."""
        if self.arguments.builtin_backends is not None:
            from delegatec.backends import declare_packages

            declare_packages(filter(None, self.arguments.builtin_backends.split(",")))
        try:
            code: int = self.module.run(self.arguments)
        except CommandLineError as error:
            error.verb = error.verb or self.arguments.verb
            raise
        return code


# Python up to 3.11 quotes them.
_CHOICES: Final = re.compile(r"\(choose from [^)]*\)$")


def _unquoted(choices: re.Match[str]) -> str:
    return choices[0].replace("'", "")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandLineError(_CHOICES.sub(_unquoted, message), self.prog.partition(" ")[2])

    def check_flags(self, arguments: Sequence[str]) -> None:
        """Raises CommandLineError for the first unknown flag: argparse names missing ones first."""
        known = self._option_string_actions
        for argument in arguments:
            flag = argument.partition("=")[0]
            if flag.startswith("-") and flag not in known and not flag.lstrip("-.").isdigit():
                # without the dashes, which all have in common
                names = {name.strip("-"): name for name in known}
                near = nearest(flag.strip("-").replace("_", "-"), names, _SIMILAR)
                meant = f": did you mean {names[near]!r}?" if near else self._as_option(argument)
                self.error(f"unknown argument {argument}{meant}")

    def _as_option(self, argument: str) -> str:
        """Returns how an unknown flag is written if it is an option of a backend; "" without such options."""
        name = argument.strip("-").replace("-", "_")
        is_setting = "=" in name and "--option" in self._option_string_actions
        return f": an option of a backend is --option={name}" if is_setting else ""


def parse(argv: Sequence[str]) -> Command | None:
    """Parses a command line, including its parameter files; returns None if it prints `--help`.

    Raises:
        CommandLineError: it is invalid.
    """
    expanded = expand(argv)
    if any("\0" in argument for argument in expanded):
        raise CommandLineError("an argument contains a NUL character")
    parser = _Parser(
        prog="delegatec", description="Compiles PyTorch models to .pte programs.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"delegatec {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    wanted = next((argument for argument in expanded if argument in VERBS), None)
    if wanted and expanded[0] != wanted:
        raise CommandLineError(f"{expanded[0]} precedes the verb: expected {wanted} first")
    if expanded and not wanted and not expanded[0].startswith("-"):
        raise CommandLineError(f"unknown verb {expanded[0]!r}{_meant(expanded[0])}")
    module = None
    for verb, purpose in VERBS.items():
        subparser = verbs.add_parser(verb, help=purpose, description=purpose, allow_abbrev=False)
        if verb == wanted:
            module = importlib.import_module(f"delegatec.cli.{verb}")
            subparser.add_argument(
                "--builtin-backends",
                default=None,
                metavar="PACKAGE,...",
                help="packages of built-in backends that may be used, such as arm,mps (default: all)",
            )
            module.add_arguments(subparser)
            subparser.check_flags(expanded[1:])
    try:
        arguments = parser.parse_args(expanded)
    except SystemExit:
        return None
    assert module is not None
    if hasattr(module, "complete"):
        module.complete(arguments)
    return Command(module, arguments)


def _meant(verb: str) -> str:
    """Returns how an unknown verb should have been written, after a colon; "" if that is unknown."""
    if verb.partition(" ")[0] in VERBS:
        return ": several arguments in one: a parameter file has one on each line"
    near = nearest(verb, VERBS, _SIMILAR)
    return f": did you mean {near!r}?" if near else ""


def expand(argv: Sequence[str]) -> list[str]:
    """Expands `@FILE` and `--flagfile=FILE` to the lines of the file."""
    expanded: list[str] = []
    for argument in argv:
        path = argument[1:] if argument.startswith("@") else argument.removeprefix("--flagfile=")
        if path == argument:
            expanded.append(argument)
            continue
        try:
            with open(path, encoding="utf-8-sig") as file:
                expanded += file.read().splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandLineError(f"cannot read parameter file {path}: {reason}") from error
    return expanded
