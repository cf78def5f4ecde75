# SPDX-License-Identifier: Apache-2.0
"""`program_diff`: `bazel run` prints how a program differs from another one."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":launcher.bzl", "delegatec_launcher", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _described(ctx, target, flag):
    info = target[DelegateProgramInfo]
    return ["--%s-manifest=%s" % (flag, runfiles_path(ctx, info.manifest))], [info.program, info.manifest]

def _program_diff_impl(ctx):
    arguments, files = _described(ctx, ctx.attr.program, "after")
    arguments.append("--after=" + runfiles_path(ctx, ctx.attr.program[DelegateProgramInfo].program))
    base = ctx.attr.base
    if base and DelegateProgramInfo in base:
        described, more = _described(ctx, base, "before")
        arguments += described + [runfiles_path(ctx, more[0])]
        files += more
    elif base:
        arguments.append(runfiles_path(ctx, ctx.files.base[0]))
        files.append(ctx.files.base[0])
    return [delegatec_launcher(ctx, arguments = arguments, files = files, verb = "diff")]

program_diff = rule(
    implementation = _program_diff_impl,
    doc = """\
Prints what differs between two programs: options, signatures, delegates and their operators, kernels, weights, the memory
plan, sizes and estimates. Without `base`, the other program is an argument: `bazel run //models:foo_diff -- old.pte`.
`-- --format=json` prints JSON, and `-- --exit-code` fails if the programs differ.
""",
    attrs = dict(
        base = attr.label(
            allow_files = [".pte"],
            doc = "The program before: a target, or a `.pte` file.",
        ),
        program = attr.label(
            mandatory = True,
            doc = "The program after.",
            providers = [DelegateProgramInfo],
        ),
    ),
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
