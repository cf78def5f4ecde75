# SPDX-License-Identifier: Apache-2.0
"""Command-line arguments that control delegation."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from delegatec.cli.errors import CommandLineError

if TYPE_CHECKING:
    from delegatec.delegation import PartitionRules


def add_delegation_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    group = parser.add_argument_group("delegation")
    group.add_argument(
        "--backend",
        action="append",
        default=[],
        help="portable (the default), a built-in backend, or module:attribute; repeat in order of priority",
    )
    group.add_argument(
        "--method-backend",
        action="append",
        default=[],
        metavar="METHOD=BACKEND",
        help="backend for one method, instead of --backend; repeat in order of priority",
    )
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="backend option; BACKEND.NAME=VALUE if there are several backends; repeat it for each element "
        "of an option that is a list (NAME= for an empty one)",
    )
    group.add_argument(
        "--import-path", action="append", default=[], metavar="DIR", help="import path of the plug-ins"
    )
    group.add_argument(
        "--require-full-delegation", action="store_true", help="fail if the backends leave any node"
    )
    for action, kind, doc in (
        ("allow", "operator", "delegate only this operator, such as aten.add or aten.add.Tensor"),
        ("block", "operator", "do not delegate this operator"),
        ("allow", "module", "delegate only what runs in this submodule, such as encoder.layer.0"),
        ("block", "module", "do not delegate what runs in this submodule"),
    ):
        group.add_argument(
            f"--{action}-{kind}",
            action="append",
            default=[],
            metavar="PATTERN",
            help=f"{doc}; wildcards * ? [ ]; may be repeated",
        )
    group.add_argument("--minimum-nodes", type=int, default=1, metavar="N", help="per delegate (default: 1)")
    group.add_argument(
        "--maximum-delegates", type=int, default=None, metavar="N", help="per method; the largest are kept"
    )
    group.add_argument(
        "--all-or-nothing", action="store_true", help="delegate a method as a whole or not at all"
    )
    group.add_argument(
        "--silence-note",
        action="append",
        default=[],
        metavar="NAME",
        help="leave out notes of this kind, such as transposed-input; may be repeated",
    )


def backends_of(arguments: argparse.Namespace) -> list[str]:
    """Returns the backends given by `--backend`, in order of priority."""
    return arguments.backend or ["portable"]


def method_backends_of(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Returns method -> its backends, in order of priority."""
    backends: dict[str, list[str]] = {}
    for text in arguments.method_backend:
        method, backend = _pair("--method-backend", text, "METHOD=BACKEND")
        backends.setdefault(method, []).append(backend)
    return backends


def options_of(arguments: argparse.Namespace) -> dict[str, str | list[str]]:
    """Returns option -> its value, or its values if given several times."""
    options: dict[str, list[str]] = {}
    for text in arguments.option:
        name, value = _pair("--option", text, "NAME=VALUE")
        options.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in options.items()}


def rules_of(arguments: argparse.Namespace) -> PartitionRules:
    """Returns the partition rules."""
    from delegatec.delegation import PartitionRules

    return PartitionRules(
        allow_operators=tuple(arguments.allow_operator),
        block_operators=tuple(arguments.block_operator),
        allow_modules=tuple(arguments.allow_module),
        block_modules=tuple(arguments.block_module),
        minimum_nodes=arguments.minimum_nodes,
        maximum_delegates=arguments.maximum_delegates,
        all_or_nothing=arguments.all_or_nothing,
    )


def selectors(backends: Sequence[str], method_backends: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the names of all requested backends, without duplicates and "portable"."""
    named = [*backends, *(backend for several in method_backends.values() for backend in several)]
    return [backend for backend in dict.fromkeys(named) if backend != "portable"]


def _pair(flag: str, text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandLineError(f"{flag} {text}: expected {form}")
    return name, value
