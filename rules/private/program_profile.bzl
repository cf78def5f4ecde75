# SPDX-License-Identifier: Apache-2.0
"""`program_profile`: `bazel run` prints where a program spends its time."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":backends.bzl", "is_plugin")
load(":launcher.bzl", "delegatec_launcher", "quoted", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_profile_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    arguments = ["--pte=" + runfiles_path(ctx, info.program), "--debug=" + runfiles_path(ctx, info.debug)]
    arguments += [quoted("--backend=" + backend) for backend in info.backends if is_plugin(backend)]
    return [delegatec_launcher(
        ctx,
        arguments = arguments,
        files = [info.program, info.debug],
        imports = info.plugin_imports,
        plugin_files = info.plugin_files,
        verb = "profile",
    )]

program_profile = rule(
    implementation = _program_profile_impl,
    doc = """\
Prints where a program spends its time, by line of the model, from an ETDump that its runtime recorded, on a device or a host:
`bazel run //models:foo.profile -- phone.etdump`. `--by` chooses other rows: `module`, `operator`, `kernel` or `step`;
`--format=json` prints all figures.

The macros of the program rules declare one for each program, as `NAME.profile`.
""",
    attrs = {
        "program": attr.label(
            mandatory = True,
            doc = "The program that ran.",
            providers = [DelegateProgramInfo],
        ),
    },
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
