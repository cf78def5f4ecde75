# SPDX-License-Identifier: Apache-2.0
"""`delegatec transcribe`: transcribes recordings with a program, and compares it with the model in float."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from delegatec.cli.arithmetic import pin_torch
from delegatec.cli.checkpoint_folder import checkpoint_folder
from delegatec.cli.comparison import (
    add_comparison_arguments,
    add_import_paths,
    check_comparison,
    executor_of,
    print_outcomes,
)
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.progress import stages

if TYPE_CHECKING:
    from delegatec.language.checks import Outcome
    from delegatec.language.speech.checks import SpeechChecks

INPUTS = ("checkpoint", "pte", "ptd", "audio")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    add_comparison_arguments(parser)
    for name in ("language", "task"):
        parser.add_argument(f"--{name}", default="", help=f"the {name} that the program was exported with")
    parser.add_argument(
        "--audio", action="append", default=[], metavar="IN.wav", help="a recording: 16-bit PCM, one channel"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each check, and fails if one does."""
    check_environment()
    check_comparison(arguments)
    if not arguments.audio:
        raise CommandLineError("--audio is not given")
    with checkpoint_folder(arguments) as folder:
        print_outcomes(arguments.label, _outcomes(arguments, folder))
    return 0


def _outcomes(arguments: argparse.Namespace, folder: str) -> Iterator[Outcome]:
    with stages() as announce:
        announce("importing torch")
        pin_torch()
        add_import_paths(arguments)
        announce("loading the model in float, and the program")
        from delegatec.language.speech.recording import read_recording

        checks = _checks(arguments, folder)
        rate = checks.model.sampling_rate
        recordings = {os.path.basename(path): read_recording(path, rate) for path in arguments.audio}
    yield from checks.recordings(recordings, arguments.tokens)
    if arguments.runtime:
        yield checks.bounds(next(iter(recordings.values())))


def _checks(arguments: argparse.Namespace, folder: str) -> SpeechChecks:
    from delegatec.language.speech.checks import SpeechChecks
    from delegatec.language.speech.reference import SpeechReference
    from delegatec.language.speech.running import METADATA, METHODS, RunningSpeechModel
    from delegatec.program.reader import read_program
    from delegatec.verify.runtime_plugin import find_runtime

    program = read_program(arguments.pte)
    runtime = find_runtime(arguments.runtime) if arguments.runtime else None
    executor = executor_of(arguments, program, (*METHODS, *METADATA), runtime)
    reference = SpeechReference(folder, arguments.language, arguments.task)
    return SpeechChecks(reference, RunningSpeechModel(executor), arguments.maximum_divergence)
