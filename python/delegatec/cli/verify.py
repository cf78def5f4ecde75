# SPDX-License-Identifier: Apache-2.0
"""`delegatec verify`: compares a `.pte` on this host with its `.pt2` in eager mode."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from delegatec.cli.delegation_arguments import backends_of, method_backends_of, options_of, rules_of
from delegatec.cli.documents import read_document
from delegatec.cli.environment import check_environment
from delegatec.cli.integers import count
from delegatec.cli.junit import Case, write_junit
from delegatec.cli.kernel_arguments import add_kernel_arguments, import_operators
from delegatec.cli.layout import layout_options
from delegatec.cli.lowering_flags import parsed_flags
from delegatec.cli.progress import Progress
from delegatec.cli.samples import add_function_arguments, check_function, read_samples
from delegatec.cli.sources import add_sources_argument, find_sources
from delegatec.cli.trusted import add_trusted_argument
from delegatec.files import samples_path

if TYPE_CHECKING:
    from delegatec.delegation import BackendRegistry
    from delegatec.diagnostics import Diagnostic
    from delegatec.frontend.archive import LoadedModel
    from delegatec.program import EmittedProgram
    from delegatec.verify import Verification
    from delegatec.verify.departure import Methods
    from delegatec.verify.runtime import Runtime

INPUTS = ("program", "sources", "samples_file", "pte", "ptd", "manifest", "inputs", "source", "data")

# The part of Bazel's time limit after which the search for a departure ends.
_SEARCH_SHARE: Final = 0.7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--label", default="", help="name of the target, shown in messages")
    parser.add_argument("--program", required=True, metavar="IN.pt2", help="the exported program (.pt2)")
    add_trusted_argument(parser)
    add_sources_argument(parser)
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program to run (.pte)")
    parser.add_argument("--ptd", default="", metavar="IN.ptd", help="the program's external weights (.ptd)")
    parser.add_argument(
        "--manifest",
        default="",
        metavar="IN.json",
        help="the program's manifest; a failure then names the first value that departs from eager mode",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of --pte that differs from the manifest's",
    )
    parser.add_argument(
        "--backend", action="append", default=[], metavar="MODULE:ATTRIBUTE", help="backend plug-in"
    )
    add_kernel_arguments(parser)
    parser.add_argument(
        "--runtime",
        action="append",
        default=[],
        metavar="MODULE:ATTRIBUTE",
        help="runtime plug-in, such as executorch_runtime:RUNTIME, that runs the program as well",
    )
    parser.add_argument(
        "--runtime-if-able",
        action="append",
        default=[],
        metavar="MODULE:ATTRIBUTE",
        help="the same, but only if it has all backends of the program",
    )
    parser.add_argument(
        "--samples-file",
        default=None,
        metavar="IN.safetensors",
        help="what the model itself returned, as `export --samples-file` writes it (default: "
        "NAME.samples.safetensors next to the .pt2, if it exists); empty for none",
    )
    tolerances = parser.add_argument_group("tolerances")
    for flag, kind in (("--atol", "absolute"), ("--rtol", "relative")):
        tolerances.add_argument(
            flag,
            type=_checked(_number),
            help=f"{kind} tolerance of floats (default: by dtype and number of sums in a row)",
        )
    tolerances.add_argument(
        "--tolerance",
        action="append",
        default=[],
        type=_checked(_tolerance),
        metavar="DTYPE=ATOL[,RTOL]",
        help="tolerance of the outputs of one dtype, also of integers, which are exact otherwise",
    )
    tolerances.add_argument(
        "--minimum-snr-db",
        type=_checked(_decibels),
        default=None,
        metavar="DB",
        help="least signal-to-noise ratio of outputs against those of --samples-file, instead of tolerances: "
        "for quantized programs; -inf for no limit",
    )
    inputs = parser.add_argument_group("inputs, besides the model's examples")
    inputs.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="FILE",
        help=".safetensors with a tensor per input, or .npy for one input; a first dimension stacks samples",
    )
    add_function_arguments(inputs)
    inputs.add_argument("--seeds", type=count, default=3, help="variations of the examples (default: 3)")


def complete(arguments: argparse.Namespace) -> None:
    """Sets the defaults of `--sources` and `--samples-file`."""
    find_sources(arguments)
    if arguments.samples_file is None:
        path = samples_path(arguments.program)
        arguments.samples_file = path if os.path.exists(path) else ""


def run(arguments: argparse.Namespace) -> int:
    """Runs the program, prints a table of the outputs, and fails if any output is wrong."""
    started = time.monotonic()
    check_function(arguments)
    check_environment()
    from delegatec.edge.app_kernels import app_kernels

    sys.path[:0] = arguments.import_path
    import_operators(arguments)
    with app_kernels(arguments.kernel):
        return _verify(arguments, started)


def _verify(arguments: argparse.Namespace, started: float) -> int:
    from delegatec.backends import builtin_backends
    from delegatec.diagnostics import DelegatecError, render
    from delegatec.frontend import archive
    from delegatec.frontend.samples_file import read_samples as read_recorded
    from delegatec.verify.verification import verify_program

    registry = builtin_backends()
    for backend in arguments.backend:
        registry.resolve(backend)
    model = archive.load(arguments.program, trusted=arguments.trusted, sources=arguments.sources)
    settings: dict[str, Any] = {
        "atol": arguments.atol,
        "rtol": arguments.rtol,
        "of_dtype": dict(arguments.tolerance),
        "seeds": arguments.seeds,
        "samples": read_samples(arguments, arguments.inputs, model.methods, "test"),
    }
    try:
        settings["runtimes"] = _runtimes(arguments)
        result = verify_program(
            arguments.pte,
            model.methods,
            registry,
            ptd=arguments.ptd or None,
            constant_methods=model.constant_methods,
            recorded=read_recorded(arguments.samples_file) if arguments.samples_file else None,
            minimum_snr=arguments.minimum_snr_db,
            **settings,
        )
    except DelegatecError as error:
        write_junit(arguments.label, [Case("the program", failure=render(error.diagnostics))])
        raise
    print(result.table(), flush=True)
    _write_results(arguments.label, result)
    if not result.diagnostics:
        return 0
    departures: dict[str, Diagnostic] = {}
    if arguments.manifest:
        print("looking for the first value that departs", file=sys.stderr, flush=True)
        departures = _departures(arguments, result, registry, settings, _limit(started))
        _write_results(arguments.label, result, departures)
    raise DelegatecError([*result.diagnostics, *departures.values()])


def _runtimes(arguments: argparse.Namespace) -> list[Runtime]:
    """Returns those of `--runtime`, and those of `--runtime-if-able` that are."""
    from delegatec.program.reader import read_program
    from delegatec.verify.executors import missing_backends
    from delegatec.verify.runtime_plugin import find_runtime

    found = [find_runtime(selector) for selector in arguments.runtime]
    if arguments.runtime_if_able:
        program = read_program(arguments.pte)
        candidates = map(find_runtime, arguments.runtime_if_able)
        found += [runtime for runtime in candidates if not missing_backends(runtime, program)]
    return found


def _departures(
    arguments: argparse.Namespace,
    result: Verification,
    registry: BackendRegistry,
    settings: dict[str, Any],
    is_late: Callable[[], bool],
) -> dict[str, Diagnostic]:
    """Returns the first departure, for the first wrong output of each method."""
    from delegatec.frontend import archive
    from delegatec.lowering import lower
    from delegatec.report.manifest import from_json
    from delegatec.verify.departure import Search
    from delegatec.verify.outputs import EXPORTED

    flags = parsed_flags([*read_document(arguments.manifest, from_json).flags])
    options = options_of(flags) | options_of(arguments)

    def load() -> LoadedModel:
        return archive.load(arguments.program, trusted=arguments.trusted, sources=arguments.sources)

    def lowered(methods: Methods) -> EmittedProgram:
        chosen = {name: several for name, several in method_backends_of(flags).items() if name in methods}
        return lower(
            methods,
            backends_of(flags),
            options,
            method_backends=chosen,
            rules=rules_of(flags),
            registry=registry,
            program_options=layout_options(flags),
            is_part=True,
        ).emitted

    progress = Progress()

    def announce(name: str) -> None:
        progress.show(f"comparing {name}")

    search = Search(lambda: load().methods, lowered, registry, is_late=is_late, on_value=announce, **settings)
    # The values of the exported program are known; of the module itself, only its outputs.
    wrong = [each for each in result.results if not each.passed and each.call.oracle == EXPORTED]
    first = {each.method: each for each in reversed(wrong)}
    departures = {name: found for name, failure in first.items() if (found := search.find(failure))}
    progress.show("")
    return departures


def _write_results(
    label: str, result: Verification, departures: Mapping[str, Diagnostic] | None = None
) -> None:
    """Writes a test case for each output, with its worst call, and one for every other problem.

    Args:
        label: the target of the test.
        result: the results.
        departures: method -> the first value that departs.
    """
    from delegatec.diagnostics import render
    from delegatec.verify.executors import REFERENCE
    from delegatec.verify.outputs import EXPORTED

    cases = []
    for worst in result.worst():
        figures: dict[str, object] = {"call": worst.trial, "kind": worst.kind}
        if (c := worst.comparison) is not None:
            figures |= {"max abs": f"{c.max_abs:.6g}", "max rel": f"{c.max_rel:.6g}"}
            figures |= {"cosine": f"{c.cosine:.9g}", "SNR dB": f"{c.snr_db:.4g}"}
            figures["tolerance"] = worst.tolerance if worst.minimum_snr is None else worst.limit
        departure = (departures or {}).get(worst.method) if worst.call.oracle == EXPORTED else None
        reasons = [worst.problem, departure] if worst.problem else []
        failure = render(filter(None, reasons))
        name = f"{worst.method}, output {worst.output} {worst.path}".rstrip()
        name += "" if worst.executor == REFERENCE else f", in {worst.executor}"
        name += "" if worst.call.oracle == EXPORTED else f", against the {worst.call.oracle}"
        cases.append(Case(name, figures, failure))
    told = [each.problem for each in result.results]
    rest = [each for each in result.diagnostics if each not in told]
    write_junit(label, cases + [Case(each.message, failure=render([each])) for each in rest])


def _limit(started: float) -> Callable[[], bool]:
    """Returns whether little is left of the time that Bazel grants a test."""
    timeout = os.environ.get("TEST_TIMEOUT", "")
    end = started + float(timeout) * _SEARCH_SHARE if timeout.isdecimal() else float("inf")
    return lambda: time.monotonic() > end


def _number(text: str) -> float:
    from delegatec.samples.tolerances import parse_float

    return parse_float(text)


def _decibels(text: str) -> float:
    value = float(text)
    if math.isnan(value) or value == math.inf:
        raise ValueError(f"{text}: expected a number, or -inf")
    return value


def _tolerance(text: str) -> tuple[Any, Any]:
    from delegatec.samples.tolerances import parse_tolerance

    return parse_tolerance(text)


def _checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Returns a parser whose errors argparse prints."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed
