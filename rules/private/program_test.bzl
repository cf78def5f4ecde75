# SPDX-License-Identifier: Apache-2.0
"""`program_test`: a program's numerics against eager, on this host."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":backends.bzl", "is_plugin")
load(":launcher.bzl", "LAUNCHER_ATTRS", "delegatec_launcher", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _program_test_impl(ctx):
    info = ctx.attr.program[DelegateProgramInfo]
    arguments = [
        "'--label=%s'" % ctx.label,
        "--program=" + runfiles_path(ctx, info.exported.program),
        "--pte=" + runfiles_path(ctx, info.program),
        "'--atol=%s'" % ctx.attr.atol,
        "'--rtol=%s'" % ctx.attr.rtol,
        "--seeds=%d" % ctx.attr.seeds,
    ]
    files = [info.exported.program, info.program]
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
Runs a program on this host and compares every output with that of the exported program in eager.

No device is needed: a delegate's blob is run by the reference executor of its backend, from the blob alone. An
output may differ from eager's by `atol + rtol * |eager|`, element by element.
""",
    attrs = dict(
        LAUNCHER_ATTRS,
        atol = attr.string(
            default = "1e-5",
            doc = "Absolute tolerance. A string, as Starlark's floats are newer than some Bazels.",
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
            doc = "How many random inputs are tried besides the model's example inputs. Dynamic dimensions take " +
                  "their least size in the first, their largest in the second, and any in those that follow.",
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
