# SPDX-License-Identifier: Apache-2.0
"""`program_explain`: `bazel run` prints what was delegated of a program, what was not and why, and what to do about it."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":launcher.bzl", "delegatec_launcher", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_explain_impl(ctx):
    manifest = ctx.attr.program[DelegateProgramInfo].manifest
    return [delegatec_launcher(
        ctx,
        arguments = [runfiles_path(ctx, manifest)],
        files = [manifest],
        verb = "explain",
    )]

program_explain = rule(
    implementation = _program_explain_impl,
    doc = """\
Prints what was delegated of a program, what was not and why, with lines of the model, and what to do about it, in a few
sentences, which the report begins with, too.

The macros of the program rules declare one for each program, as `NAME.explain`.
""",
    attrs = {
        "program": attr.label(
            mandatory = True,
            doc = "The program.",
            providers = [DelegateProgramInfo],
        ),
    },
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
