# SPDX-License-Identifier: Apache-2.0
"""`program_profile`: `bazel run` runs a program, or reads what a device recorded, and prints where it spends its time."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":app_kernels.bzl", "module_flags")
load(":backends.bzl", "is_plugin")
load(":launcher.bzl", "delegatec_launcher", "quoted", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_profile_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    flags = {"debug": info.debug, "pte": info.program}
    kernels = info.exported.kernels
    words = [quoted("--backend=" + backend) for backend in info.backends if is_plugin(backend)]
    runner = ctx.attr.runner[DefaultInfo].files_to_run.executable if ctx.attr.runner else None
    runfiles = []
    if runner:
        flags.update({"program": info.exported.program, "runner": runner})
        if info.exported.samples:
            flags["samples-file"] = info.exported.samples
        if info.weights:
            flags["ptd"] = info.weights
        words += module_flags(kernels)
        runfiles.append(ctx.attr.runner[DefaultInfo].default_runfiles.files)
    return [delegatec_launcher(
        ctx,
        arguments = ["--%s=%s" % (flag, runfiles_path(ctx, file)) for flag, file in flags.items()] + words,
        files = flags.values(),
        imports = depset(transitive = [info.plugin_imports, kernels.imports]),
        plugin_files = depset(transitive = [info.plugin_files, kernels.files] + runfiles),
        verb = "profile",
    )]

program_profile = rule(
    implementation = _program_profile_impl,
    doc = """\
Prints where a program spends its time, by line of the model. `bazel run //models:foo.profile` runs it on this host, in
ExecuTorch's runtime; `bazel run //models:foo.profile -- phone.etdump` reads what a device recorded. `--by` chooses other
rows: `module`, `operator`, `kernel` or `step`; `--format=json` prints all figures. `--benchmark` prints the latency, the
time to load and the peak of memory instead.

The macros of the program rules declare one for each program, as `NAME.profile`.
""",
    attrs = {
        "program": attr.label(
            mandatory = True,
            doc = "The program.",
            providers = [DelegateProgramInfo],
        ),
        "runner": attr.label(
            allow_files = True,
            cfg = "exec",
            doc = "What runs it on this host: `@rules_delegate//runtime:runner`. Without one, it only reads files.",
        ),
    },
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
