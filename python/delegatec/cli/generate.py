# SPDX-License-Identifier: Apache-2.0
"""`delegatec generate`: continues prompts with a language model, and compares it with the model in float."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.checkpoint_folder import checkpoint_folder, linked_folder
from delegatec.cli.comparison import (
    add_comparison_arguments,
    add_import_paths,
    check_comparison,
    executor_of,
    positive,
    print_outcomes,
)
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.progress import stages

if TYPE_CHECKING:
    from delegatec.language.checks import LanguageModelChecks, Outcome

INPUTS = ("adapter", "checkpoint", "draft", "draft_checkpoint", "draft_ptd", "image", "pte", "ptd", "text")
# Tokens of a text whose perplexity is computed.
_TEXT_TOKENS: Final = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    runtime = "; its runner of language models continues the prompts as well"
    limits = add_comparison_arguments(parser, runtime)
    parser.add_argument("--prompt", action="append", default=[], help="a text to continue")
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="IN.ppm",
        help="an image: a prompt has the checkpoint's token for one, such as <image>",
    )
    parser.add_argument(
        "--adapter",
        action="append",
        default=[],
        metavar="FILE",
        help="a file of the published folder of the adapter whose weights are in --ptd",
    )
    parser.add_argument(
        "--draft", default="", metavar="IN.pte", help="the program of a draft model, for speculative decoding"
    )
    parser.add_argument("--draft-ptd", default="", metavar="IN.ptd", help="its external weights")
    parser.add_argument(
        "--draft-checkpoint",
        action="append",
        default=[],
        metavar="FILE",
        help="a file of its published folder: tokenizer.json is read",
    )
    parser.add_argument("--text", default="", metavar="IN.txt", help="a text whose perplexity is compared")
    limits.add_argument(
        "--maximum-perplexity-ratio",
        type=positive,
        default=None,
        metavar="RATIO",
        help="perplexity of --text, relative to that of the model in float",
    )
    limits.add_argument(
        "--minimum-acceptance",
        type=positive,
        default=None,
        metavar="SHARE",
        help="share of the tokens of --draft that are those of the program",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each check, and fails if one does."""
    check_environment()
    _check(arguments)
    check_comparison(arguments)
    with checkpoint_folder(arguments) as folder, linked_folder("--adapter", arguments.adapter) as adapter:
        print_outcomes(arguments.label, _outcomes(arguments, folder, adapter if arguments.adapter else ""))
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises CommandLineError for arguments without an effect, or without a limit."""
    if not arguments.prompt and not arguments.text:
        raise CommandLineError("neither --prompt nor --text is given")
    if bool(arguments.text) != (arguments.maximum_perplexity_ratio is not None):
        raise CommandLineError("--text and --maximum-perplexity-ratio need each other")
    if arguments.image and not arguments.prompt:
        raise CommandLineError("--image has no effect without --prompt")
    if bool(arguments.draft) != bool(arguments.draft_checkpoint):
        raise CommandLineError("--draft and --draft-checkpoint need each other")
    if arguments.minimum_acceptance is not None and not (arguments.draft and arguments.prompt):
        raise CommandLineError("--minimum-acceptance has no effect without --draft and --prompt")
    if arguments.adapter and not arguments.ptd:
        raise CommandLineError("--adapter needs --ptd, which has its weights")
    if arguments.adapter and arguments.image:
        raise CommandLineError("--adapter has no effect with --image")
    if arguments.maximum_divergence is not None and not arguments.prompt:
        raise CommandLineError("--maximum-divergence has no effect without --prompt")


def _outcomes(arguments: argparse.Namespace, folder: str, adapter: str) -> Iterator[Outcome]:
    with stages() as announce:
        announce("importing torch")
        pin_torch()
        add_import_paths(arguments)
        announce("loading the model in float, and the program")
        checks = _checks(arguments, folder, adapter)
    yield from checks.prompts(arguments.prompt, arguments.tokens)
    if arguments.prompt and arguments.runtime:
        yield checks.bounds(arguments.prompt[0])
    if arguments.text:
        with open(arguments.text, encoding="utf-8") as file:
            yield checks.perplexity(file.read(), _TEXT_TOKENS)


def _checks(arguments: argparse.Namespace, folder: str, adapter: str) -> LanguageModelChecks:
    from delegatec.language.checks import LanguageModelChecks, Limits
    from delegatec.language.oracles import oracle_of
    from delegatec.language.reference import TextTokenizer
    from delegatec.program.reader import read_program
    from delegatec.verify.runtime_plugin import find_runtime
    from delegatec.verify.text_runner import RuntimeTextRunner

    program = read_program(arguments.pte)
    oracle = oracle_of([method.name for method in program.methods], folder, arguments.image, adapter)
    runtime = find_runtime(arguments.runtime) if arguments.runtime else None
    executor = executor_of(arguments, program, oracle.methods, runtime)
    runner: RuntimeTextRunner | None = None
    if runtime is not None:
        runner = oracle.runner(runtime, arguments.pte, arguments.ptd or None)
        if runner is None:
            print(f"{runtime.name} has no runner of language models: its answers are not compared")
    limits = Limits(
        arguments.maximum_divergence, arguments.maximum_perplexity_ratio, arguments.minimum_acceptance or 0.0
    )
    draft = None
    if arguments.draft:
        with linked_folder("--draft-checkpoint", arguments.draft_checkpoint) as drafts:
            oracle.tokenizer.check_same(TextTokenizer(drafts))
        files = argparse.Namespace(pte=arguments.draft, ptd=arguments.draft_ptd)
        program = read_program(arguments.draft)
        draft = oracle.running(executor_of(files, program, oracle.methods, runtime))
    model = oracle.running(executor)
    return LanguageModelChecks(oracle.reference, oracle.tokenizer, model, runner, limits, draft)
