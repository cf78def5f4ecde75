# SPDX-License-Identifier: Apache-2.0
"""Tests that run a verb of the compiler on a program, on this host."""

load(":launcher.bzl", "LAUNCHED_TEST_REQUIREMENTS", "delegatec_launcher", "quoted", "runfiles_path")
load(":program_runtime.bzl", "ProgramRuntimeInfo")

def launched_test(ctx, info, verb, arguments, files, python, weights = None, runtimes = []):
    """Declares what a test runs.

    Args:
        ctx: the context of a test with the attribute `runtime`.
        info: DelegateProgramInfo of the program.
        verb: the compiler's verb.
        arguments: list of string: its arguments besides those of the program's weights and the runtime.
        files: list of File that it reads.
        python: the libraries of the test, from `merged_python`.
        weights: File of its external weights, if not that of the program.
        runtimes: list of tuple of a flag and ProgramRuntimeInfo, besides that of `runtime`.

    Returns:
        A list of providers.
    """
    kernels = info.exported.kernels
    imports = [info.plugin_imports, python.imports, kernels.imports]
    plugin_files = [info.plugin_files, python.files, kernels.files]
    weights = weights or info.weights
    if weights:
        arguments = arguments + ["--ptd=" + runfiles_path(ctx, weights)]
        files = files + [weights]
    if ctx.attr.runtime:
        runtimes = [("--runtime", ctx.attr.runtime[ProgramRuntimeInfo])] + runtimes
    for flag, runtime in runtimes:
        if runtime.runtime:
            arguments = arguments + [quoted(flag + "=" + runtime.runtime)]
            imports.append(runtime.imports)
            plugin_files.append(runtime.files)
    return [delegatec_launcher(
        ctx,
        arguments = arguments,
        files = files,
        imports = depset(transitive = imports),
        plugin_files = depset(transitive = plugin_files),
        verb = verb,
    ), testing.ExecutionInfo(LAUNCHED_TEST_REQUIREMENTS)]
