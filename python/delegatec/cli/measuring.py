# SPDX-License-Identifier: Apache-2.0
"""What `delegatec profile` measures: the program, its baseline, and the inputs of their runs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from delegatec.cli.documents import read_debug_map, shown, text_of
from delegatec.cli.errors import CommandLineError
from delegatec.cli.kernel_arguments import import_operators

if TYPE_CHECKING:
    from delegatec.profile.attribution import Profile
    from delegatec.profile.benchmark import Benchmark
    from delegatec.profile.recording import Recorder
    from delegatec.program.reader.model import Method

# Bytes 4 to 8 of a program.
_PROGRAM: Final = b"ET12"


@dataclass(frozen=True)
class Subject:
    """A method of a program.

    Attributes:
        pte: the program.
        ptd: its external weights; "" for none.
        method: the method.
        debug: the method in the debug map.
    """

    pte: str
    ptd: str
    method: Method
    debug: Mapping[str, Any]


@dataclass(frozen=True)
class Baseline:
    """What a program is compared with.

    Attributes:
        subject: a program that runs, too; None if it has been measured before.
        document: what was measured before, or None.
        has_lines: whether lines of its model are known.
    """

    subject: Subject | None
    document: Profile | Benchmark | None
    has_lines: bool


def read_subject(flag: str, pte: str, ptd: str, debug: str, name: str) -> Subject:
    """Reads a program.

    Args:
        flag: what chooses the method.
        pte: the program.
        ptd: its external weights; "" for none.
        debug: its debug map; "" for none.
        name: the method; "" for `forward`, or the first one.

    Raises:
        CommandLineError: it has no such method, or the debug map is of another program.
        DelegatecError: the program is damaged.
    """
    from delegatec.profile.attribution import without_origins
    from delegatec.program.reader import read_program

    program = read_program(pte)
    names = [method.name for method in program.methods]
    described: Mapping[str, Any] = {}
    if debug:
        described = read_debug_map(debug, program, "--debug" if flag == "--method" else "--baseline-debug")
        described = described["methods"]
        # constant methods have no instructions
        names = [each for each in described if each in names]
    name = name or ("forward" if "forward" in names else names[0] if names else "")
    if name not in names:
        raise CommandLineError(f"{flag} {name}: expected one of {', '.join(names)}")
    method = program.method(name)
    return Subject(pte, ptd, method, described.get(name) or without_origins(method))


def read_baseline(arguments: argparse.Namespace, subject: Subject) -> Baseline:
    """Reads the file of --baseline, and checks that it can be compared.

    Args:
        arguments: of the verb.
        subject: the program.

    Raises:
        CommandLineError: another file, or of another kind or method.
        DelegatecError: DC504, its inputs are others.
    """
    from delegatec.profile.attribution import input_types

    path, method = arguments.baseline, subject.method
    with open(path, "rb") as file:
        head = file.read(8)
    if head[4:] == _PROGRAM:
        if arguments.etdump:
            raise CommandLineError(
                f"--baseline={shown(path)} is a program, and IN.etdump has been recorded before: "
                "expected what --format=json has printed"
            )
        debug = arguments.baseline_debug or _beside(path)
        other = read_subject(
            f"--baseline={shown(path)}: method", path, arguments.baseline_ptd, debug, method.name
        )
        _check_inputs(path, input_types(other.method), subject)
        if arguments.by not in ("", "kernel", "step") and not debug:
            raise CommandLineError(
                f"--by={arguments.by}: --baseline={shown(path)} has no debug map: expected --baseline-debug, "
                "or --by=kernel"
            )
        return Baseline(other, None, bool(debug))
    for name in ("baseline_debug", "baseline_ptd"):
        if getattr(arguments, name):
            raise CommandLineError(f"--{name.replace('_', '-')} needs a .pte as --baseline")
    document = _document(path, arguments)
    if document.method != method.name:
        raise CommandLineError(
            f"--baseline={shown(path)} is of method {document.method!r}: expected {method.name!r}"
        )
    _check_inputs(path, document.inputs, subject)
    return Baseline(None, document, True)


def _beside(path: str) -> str:
    """Returns the debug map that the rules write next to a program, if it exists."""
    debug = str(Path(path).with_suffix(".debug.json"))
    return debug if os.path.isfile(debug) else ""


def _document(path: str, arguments: argparse.Namespace) -> Profile | Benchmark:
    from delegatec.profile.benchmark import Benchmark
    from delegatec.profile.documents import read_document

    try:
        found = read_document(text_of(path))
    except (ValueError, RecursionError) as error:
        raise CommandLineError(
            f"--baseline={shown(path)} is neither a program nor what --format=json has printed: {error}"
        ) from error
    is_benchmark = isinstance(found, Benchmark)
    if is_benchmark != arguments.benchmark:
        kinds = ("a benchmark", "a profile") if is_benchmark else ("a profile", "a benchmark")
        raise CommandLineError(f"--baseline={shown(path)} is {kinds[0]}: expected {kinds[1]}")
    if isinstance(found, Benchmark) and found.clock != arguments.clock:
        raise CommandLineError(
            f"--baseline={shown(path)} has times of --clock={found.clock}: expected the same"
        )
    return found


def _check_inputs(path: str, inputs: Sequence[str], subject: Subject) -> None:
    from delegatec.diagnostics import DelegatecError, Diagnostic
    from delegatec.profile.attribution import input_types

    wanted = input_types(subject.method)
    if tuple(inputs) != wanted:
        message = (
            f"--baseline={shown(path)} takes other inputs for method {subject.method.name!r}: {_text(inputs)}"
        )
        help = "compare with a program of the same model, or of one with the same inputs"
        raise DelegatecError([Diagnostic("DC504", message, expected=_text(wanted), help=help)])


def _text(types: Sequence[str]) -> str:
    return ", ".join(types) or "none"


def recorders_of(arguments: argparse.Namespace, subjects: Sequence[Subject], folder: str) -> list[Recorder]:
    """Returns what runs the programs, with the same inputs.

    Args:
        arguments: of the verb.
        subjects: the programs.
        folder: an empty folder.

    Raises:
        DelegatecError: DC501, there is no runner, or it lacks a backend.
    """
    from delegatec.diagnostics import DelegatecError, Diagnostic
    from delegatec.profile.recording import Host, Session, device_help, missing_backends
    from delegatec.verify.calls import matching

    if not arguments.runner:
        message = "there is no runner for this host, and no ETDump"
        raise DelegatecError([Diagnostic("DC501", message, help=device_help(arguments.pte))])
    under = (arguments.run_under, *arguments.run_under_argument) if arguments.run_under else ()
    session = Session(Host(arguments.runner, under, not arguments.all_threads), folder)
    inputs = _inputs(arguments, subjects[0].method.name)
    recorders = []
    for name, each in zip(("program", "baseline"), subjects, strict=False):
        what = f"inputs of method {each.method.name!r}"
        given = matching(inputs, len(each.method.inputs), what)
        recorders.append(session.add(name, each.pte, each.ptd, each.method.name, given))
    # After all files are there, since a command may copy the folder once.
    present = session.backends(arguments.pte)
    if problems := missing_backends({each.pte: each.method for each in subjects}, present):
        raise DelegatecError(problems)
    return recorders


def _inputs(arguments: argparse.Namespace, method: str) -> Sequence[Any]:
    """Returns the arguments of a call, flattened like the program's inputs."""
    from delegatec.frontend import archive
    from delegatec.frontend.samples_file import read_samples
    from delegatec.samples.inputs import trials

    if arguments.samples_file:
        for call in read_samples(arguments.samples_file).of(method):
            return call.inputs
    if not arguments.program:
        raise CommandLineError(
            f"no call of method {method!r}: expected --program, or a --samples-file with one"
        )
    import_operators(arguments)
    model = archive.load(arguments.program, trusted=arguments.trusted, sources="")
    if method not in model.methods:
        raise CommandLineError(f"--program has no method {method!r}: expected the .pt2 of the program")
    return next(trials(model.methods[method], 0)).leaves
