# SPDX-License-Identifier: Apache-2.0
"""`program_inspect`: `bazel run` prints the contents of a program."""

load("//rules:providers.bzl", "DelegateProgramInfo", "ExportedProgramInfo")
load(":app_kernels.bzl", "module_flags")
load(":backends.bzl", "is_plugin")
load(":launcher.bzl", "delegatec_launcher", "quoted", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_inspect_impl(ctx):
    target = ctx.attr.program
    if DelegateProgramInfo not in target:
        exported = target[ExportedProgramInfo]
        return [delegatec_launcher(
            ctx,
            arguments = [runfiles_path(ctx, exported.program)] + module_flags(exported.kernels),
            files = [exported.program],
            imports = exported.kernels.imports,
            plugin_files = exported.kernels.files,
            verb = "inspect",
        )]
    info = target[DelegateProgramInfo]
    arguments = [runfiles_path(ctx, info.program), "--debug-map=" + runfiles_path(ctx, info.debug)]
    arguments += [quoted("--backend=" + backend) for backend in info.backends if is_plugin(backend)]
    return [delegatec_launcher(
        ctx,
        arguments = arguments,
        files = [info.program, info.debug],
        imports = info.plugin_imports,
        plugin_files = info.plugin_files,
        verb = "inspect",
    )]

program_inspect = rule(
    implementation = _program_inspect_impl,
    doc = """\
Prints the methods, delegates, operators, weights and memory plan of a program; `-- --blobs` adds the contents of its
delegates' blobs, and `-- --lines` the model's line of each instruction.

The macros of the program rules declare one for each program, as `NAME.inspect`.
""",
    attrs = {
        "program": attr.label(
            mandatory = True,
            doc = "An `exported_program`, or a program lowered from one.",
            providers = [[DelegateProgramInfo], [ExportedProgramInfo]],
        ),
    },
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
