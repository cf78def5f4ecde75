# SPDX-License-Identifier: Apache-2.0
"""`delegatec profile`: prints where a program spends its time, on this host or a device."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from delegatec.cli.documents import from_where_the_user_is, read_debug_map
from delegatec.cli.environment import check_environment
from delegatec.cli.errors import CommandLineError
from delegatec.cli.kernel_arguments import add_module_argument, import_operators
from delegatec.cli.plugin_arguments import add_plugin_arguments, registry_of
from delegatec.cli.trusted import add_trusted_argument

if TYPE_CHECKING:
    from delegatec.profile.recording import Recorder
    from delegatec.program.reader.model import Method, Program

INPUTS = ("pte", "debug", "etdump", "runner", "ptd", "program", "samples_file")
OUTPUTS = ("etdump_output",)

_RUNS: Final = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument("--pte", required=True, metavar="IN.pte", help="the program")
    parser.add_argument("--debug", required=True, metavar="IN.json", help="debug map of `lower --debug`")
    parser.add_argument(
        "etdump",
        nargs="?",
        default="",
        type=from_where_the_user_is,
        metavar="IN.etdump",
        help="what a runtime recorded: the bytes of ETDumpGen::get_etdump_data(); without it, --runner "
        "runs the program on this host",
    )
    parser.add_argument("--method", default="", help="the method that runs, if the program has several")
    parser.add_argument(
        "--by",
        default="line",
        choices=("line", "module", "operator", "kernel", "step"),
        help="rows of the table (default: line)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format")
    add_plugin_arguments(parser)
    host = parser.add_argument_group("runs on this host")
    host.add_argument("--runner", default="", metavar="FILE", help="executable of //runtime:runner")
    host.add_argument("--ptd", default="", metavar="IN.ptd", help="the program's external weights (.ptd)")
    host.add_argument(
        "--samples-file",
        default="",
        metavar="IN.safetensors",
        help="calls of the model, of `export --samples-file`: the first of the method has the inputs",
    )
    host.add_argument(
        "--program", default="", metavar="IN.pt2", help="has the inputs that the samples lack: the examples"
    )
    add_trusted_argument(host)
    add_module_argument(host)
    host.add_argument(
        "--runs",
        type=_runs,
        default=_RUNS,
        help=f"runs after the first, which prepares memory (default: {_RUNS})",
    )
    host.add_argument(
        "--benchmark",
        action="store_true",
        help="print the median and 90th percentile of the runs, without recording events, the time of "
        "loading and the peak of memory",
    )
    host.add_argument("--all-threads", action="store_true", help="run with a thread for each core")
    host.add_argument(
        "--etdump-output",
        default="",
        type=from_where_the_user_is,
        metavar="OUT.etdump",
        help="keep what was recorded",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the profile."""
    if arguments.etdump and arguments.etdump_output:
        raise CommandLineError("--etdump-output keeps the runs on this host: expected no IN.etdump")
    if arguments.benchmark and (arguments.etdump or arguments.etdump_output):
        raise CommandLineError("--benchmark runs the program without recording: expected no ETDump")
    check_environment()
    from delegatec.program.reader import read_program

    registry = registry_of(arguments)
    program = read_program(arguments.pte)
    debug = read_debug_map(arguments.debug, program, "--debug")
    names = [name for name in debug["methods"] if any(method.name == name for method in program.methods)]
    name = arguments.method or ("forward" if "forward" in names else names[0] if names else "")
    if name not in names:
        raise CommandLineError(f"--method {name}: expected one of {', '.join(names)}")
    method = program.method(name)
    is_text = arguments.format == "text"
    if arguments.benchmark:
        from delegatec.profile.benchmark import benchmark_json, format_benchmark

        recorder, inputs = _recorder(arguments, program, method)
        times = recorder.measure(name, inputs, arguments.runs + 1)
        sys.stdout.write(format_benchmark(name, times) if is_text else benchmark_json(name, times))
        return 0
    from delegatec.profile.attribution import profile_of
    from delegatec.profile.etdump import read_etdump
    from delegatec.profile.table import format_profile, profile_json

    with tempfile.TemporaryDirectory(prefix="delegatec-profile-") as folder:
        etdump = arguments.etdump or arguments.etdump_output or os.path.join(folder, "runs.etdump")
        if not arguments.etdump:
            recorder, inputs = _recorder(arguments, program, method)
            recorder.record(name, inputs, arguments.runs + 1, etdump)
        profile = profile_of(read_etdump(etdump), method, debug["methods"][name], registry)
    sys.stdout.write(format_profile(profile, arguments.by) if is_text else profile_json(profile))
    return 0


def _recorder(
    arguments: argparse.Namespace, program: Program, method: Method
) -> tuple[Recorder, Sequence[Any]]:
    """Returns what runs the program on this host, and the inputs of a call of the method."""
    from delegatec.diagnostics import DelegatecError, Diagnostic
    from delegatec.profile.recording import Recorder, device_help
    from delegatec.verify.calls import matching

    if not arguments.runner:
        message = "there is no runner for this host, and no ETDump"
        raise DelegatecError([Diagnostic("DC501", message, help=device_help(arguments.pte))])
    recorder = Recorder(arguments.runner, arguments.pte, arguments.ptd, not arguments.all_threads)
    recorder.check(program)
    what = f"inputs of method {method.name!r}"
    return recorder, matching(_inputs(arguments, method.name), len(method.inputs), what)


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


def _runs(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected at least 1")
    return value
