# SPDX-License-Identifier: Apache-2.0
"""`delegatec budget`: compares the sizes and estimates of a program with limits."""

from __future__ import annotations

import argparse

from delegatec.cli.documents import read_document
from delegatec.cli.errors import CommandLineError
from delegatec.cli.junit import Case, write_junit

INPUTS = ("manifest",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--manifest", required=True, metavar="IN.json", help="the program's manifest")
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        type=_limit,
        metavar="FIGURE=N",
        help="the largest valid value of a figure, such as sram_bytes=262144",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the figures of the program, and fails if one is beyond its limit."""
    from delegatec.diagnostics import DelegatecError, render
    from delegatec.report.estimates import budget_problems, figures_of
    from delegatec.report.manifest import from_json

    manifest = read_document(arguments.manifest, from_json)
    limits = dict(arguments.limit)
    twice = sorted(name for name in limits if [each for each, _ in arguments.limit].count(name) > 1)
    if twice:
        raise CommandLineError(f"{', '.join(twice)} has several limits: expected one", "budget")
    figures = figures_of(manifest)
    width = max(map(len, figures))
    for name, value in figures.items():
        limit = f" of {limits[name]}" if name in limits else ""
        print(f"{name:{width}}  {value}{limit}")
    found = {name: list(budget_problems(manifest, {name: limit})) for name, limit in limits.items()}
    cases = [
        Case(name, {"value": figures.get(name, "unknown"), "limit": limits[name]}, render(problems))
        for name, problems in found.items()
    ]
    write_junit(arguments.label, cases)
    problems = [each for problems in found.values() for each in problems]
    if problems:
        raise DelegatecError(problems)
    return 0


def _limit(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name or not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not FIGURE=N with an integer N")
    return name, int(value)
