# SPDX-License-Identifier: Apache-2.0
"""`program_test`: compares a program with eager mode, on this host."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":backends.bzl", "is_plugin")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "LAUNCHER_ATTRS", "delegatec_launcher", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_test_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    program = info.host_program or info.program
    arguments = [
        "'--label=%s'" % label_text(ctx.label),
        "--program=" + runfiles_path(ctx, info.exported.program),
        "--pte=" + runfiles_path(ctx, program),
        "'--atol=%s'" % ctx.attr.atol,
        "'--rtol=%s'" % ctx.attr.rtol,
        "--seeds=%d" % ctx.attr.seeds,
    ]
    files = [info.exported.program, program]
    if info.weights:
        arguments.append("--ptd=" + runfiles_path(ctx, info.weights))
        files.append(info.weights)
    arguments += ["'--backend=%s'" % backend for backend in info.backends if is_plugin(backend)]
    return [delegatec_launcher(
        ctx,
        arguments = arguments,
        files = files,
        imports = info.plugin_imports,
        plugin_files = info.plugin_files,
        verb = "verify",
    )]

program_test = rule(
    implementation = _program_test_impl,
    doc = """\
Runs a program on this host and compares every output with the exported program in eager mode.

No device is needed: the backend's reference executor runs a delegate's blob, from the blob alone. Each element of
an output may differ from eager mode by `atol + rtol * |eager|`.

A program of command streams, such as an `ethos_u_program`, has a second one for this host: the same delegates, before the
compiler of the device translates them.
""",
    attrs = dict(
        LAUNCHER_ATTRS,
        atol = attr.string(
            default = "1e-5",
            doc = "Absolute tolerance. A string: older versions of Bazel do not support floats.",
        ),
        program = attr.label(
            mandatory = True,
            doc = "The lowered program.",
            providers = [DelegateProgramInfo],
        ),
        rtol = attr.string(
            default = "1e-5",
            doc = "Relative tolerance.",
        ),
        seeds = attr.int(
            default = 3,
            doc = "Number of random inputs to try besides the model's example inputs. Dynamic dimensions have " +
                  "their smallest size in the first, their largest in the second, and random sizes after that.",
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
