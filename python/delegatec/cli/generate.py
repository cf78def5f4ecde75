# SPDX-License-Identifier: Apache-2.0
"""`delegatec generate`: continues prompts with a language model, and compares it with the model in float."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.checkpoint_folder import add_checkpoint_argument, checkpoint_folder
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.integers import count
from delegatec.cli.junit import Case, write_junit
from delegatec.cli.progress import stages
from delegatec.diagnostics import DelegatecError, render

if TYPE_CHECKING:
    from delegatec.language.checks import LanguageModelChecks, Outcome

INPUTS = ("checkpoint", "image", "pte", "ptd", "text")
# Tokens of a text whose perplexity is computed.
_TEXT_TOKENS: Final = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program")
    parser.add_argument("--ptd", default="", metavar="IN.ptd", help="its external weights")
    add_checkpoint_argument(parser)
    parser.add_argument("--prompt", action="append", default=[], help="a text to continue")
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="IN.ppm",
        help="an image: a prompt has the checkpoint's token for one, such as <image>",
    )
    parser.add_argument("--tokens", type=count, default=16, metavar="N", help="to generate for each prompt")
    parser.add_argument("--text", default="", metavar="IN.txt", help="a text whose perplexity is compared")
    parser.add_argument(
        "--runtime",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="runtime plug-in, such as executorch_runtime:RUNTIME, instead of the interpreter; its runner of "
        "language models continues the prompts as well",
    )
    parser.add_argument("--import-path", action="append", default=[], metavar="DIR", help="import path")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--maximum-divergence",
        type=_positive,
        default=None,
        metavar="NATS",
        help="mean Kullback-Leibler divergence from the model in float (default: the tokens are the same)",
    )
    limits.add_argument(
        "--maximum-perplexity-ratio",
        type=_positive,
        default=None,
        metavar="RATIO",
        help="perplexity of --text, relative to that of the model in float",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each check, and fails if one does."""
    check_environment()
    _check(arguments)
    outcomes = []
    with checkpoint_folder(arguments) as folder:
        for outcome in _outcomes(arguments, folder):
            figures = ", ".join(f"{name} {value}" for name, value in outcome.figures.items())
            print(f"{'FAILED' if outcome.problem else 'ok':6}  {outcome.name}: {figures}", flush=True)
            outcomes.append(outcome)
    cases = [
        Case(each.name, each.figures, render([each.problem]) if each.problem else "") for each in outcomes
    ]
    write_junit(arguments.label, cases)
    problems = [each.problem for each in outcomes if each.problem]
    if problems:
        raise DelegatecError(problems)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises CommandLineError for arguments without an effect, or without a limit."""
    if not arguments.prompt and not arguments.text:
        raise CommandLineError("neither --prompt nor --text is given")
    if bool(arguments.text) != (arguments.maximum_perplexity_ratio is not None):
        raise CommandLineError("--text and --maximum-perplexity-ratio need each other")
    if arguments.image and not arguments.prompt:
        raise CommandLineError("--image has no effect without --prompt")
    if arguments.maximum_divergence is not None and not arguments.prompt:
        raise CommandLineError("--maximum-divergence has no effect without --prompt")
    if not arguments.tokens:
        raise CommandLineError("--tokens 0: expected at least 1")


def _outcomes(arguments: argparse.Namespace, folder: str) -> Iterator[Outcome]:
    with stages() as announce:
        announce("importing torch")
        pin_torch()
        sys.path[:0] = [path for path in map(os.path.abspath, arguments.import_path) if path not in sys.path]
        announce("loading the model in float, and the program")
        checks = _checks(arguments, folder)
    yield from checks.prompts(arguments.prompt, arguments.tokens)
    if arguments.prompt and arguments.runtime:
        yield checks.bounds(arguments.prompt[0])
    if arguments.text:
        with open(arguments.text, encoding="utf-8") as file:
            yield checks.perplexity(file.read(), _TEXT_TOKENS)


def _checks(arguments: argparse.Namespace, folder: str) -> LanguageModelChecks:
    from delegatec.backends import builtin_backends
    from delegatec.language.checks import LanguageModelChecks, Limits
    from delegatec.language.oracles import oracle_of
    from delegatec.program.reader import read_flat_tensors, read_program
    from delegatec.verify.executors import Executor, ReferenceExecutor, RuntimeExecutor
    from delegatec.verify.runtime_plugin import find_runtime
    from delegatec.verify.text_runner import RuntimeTextRunner

    program = read_program(arguments.pte)
    oracle = oracle_of([method.name for method in program.methods], folder, arguments.image)
    runner: RuntimeTextRunner | None = None
    executor: Executor
    if arguments.runtime:
        runtime = find_runtime(arguments.runtime)
        executor = RuntimeExecutor(runtime, program, arguments.pte, arguments.ptd or None)
        runner = oracle.runner(runtime, arguments.pte, arguments.ptd or None)
        if runner is None:
            print(f"{runtime.name} has no runner of language models: its answers are not compared")
    else:
        data = read_flat_tensors(arguments.ptd).entries if arguments.ptd else {}
        executor = ReferenceExecutor(program, oracle.methods, builtin_backends(), data)
    limits = Limits(arguments.maximum_divergence, arguments.maximum_perplexity_ratio)
    return LanguageModelChecks(oracle.reference, oracle.tokenizer, oracle.running(executor), runner, limits)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected a positive number")
    return value
