# SPDX-License-Identifier: Apache-2.0
"""`program_inspect`: `bazel run` on it prints what is in a program."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ExportedProgramInfo")
load(":launcher.bzl", "LAUNCHER_ATTRS", "delegatec_launcher", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_inspect_impl(ctx):
    target = ctx.attr.program
    info = target[DelegateProgramInfo] if DelegateProgramInfo in target else target[ExportedProgramInfo]
    return [delegatec_launcher(
        ctx,
        arguments = [runfiles_path(ctx, info.program)],
        files = [info.program],
        verb = "inspect",
    )]

program_inspect = rule(
    implementation = _program_inspect_impl,
    doc = """\
Prints methods, delegates, operators, weights and memory plan of a program when it is run.

The macros of the program rules make one for each program, as `NAME.inspect`.
""",
    attrs = dict(
        LAUNCHER_ATTRS,
        program = attr.label(
            mandatory = True,
            doc = "An `exported_program`, or what one was lowered to.",
            providers = [[DelegateProgramInfo], [ExportedProgramInfo]],
        ),
    ),
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
