# SPDX-License-Identifier: Apache-2.0
"""`program_golden_test`: compares a program with a committed description of it, which a command updates."""

load("//rules:providers.bzl", "DelegateProgramInfo")
load(":labels.bzl", "label_text")
load(":launcher.bzl", "LAUNCHED_TEST_REQUIREMENTS", "delegatec_launcher", "quoted", "runfiles_path")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

_ATTRS = {
    "program": attr.label(
        mandatory = True,
        doc = "The lowered program.",
        providers = [DelegateProgramInfo],
    ),
}

def _launcher(ctx, arguments, files):
    manifest = ctx.attr.program[DelegateProgramInfo].manifest
    return [delegatec_launcher(
        ctx,
        arguments = [
            quoted("--label=" + label_text(ctx.label)),
            "--manifest=" + runfiles_path(ctx, manifest),
        ] + arguments,
        files = [manifest] + files,
        verb = "golden",
    ), testing.ExecutionInfo(LAUNCHED_TEST_REQUIREMENTS)]

def _golden_test_impl(ctx):
    return _launcher(
        ctx,
        [
            "--golden=" + runfiles_path(ctx, ctx.file.golden),
            "--size-tolerance=%d" % ctx.attr.size_tolerance_percent,
            quoted("--update-command=bazel run %s.update" % label_text(ctx.label)),
        ],
        [ctx.file.golden],
    )

def _golden_update_impl(ctx):
    return _launcher(ctx, [quoted("--update=" + ctx.attr.path)], [])

program_golden_test = rule(
    implementation = _golden_test_impl,
    doc = """\
Compares a program with a committed description: methods with their inputs and outputs, options, delegates with their
operators, weights, sizes and estimates, the operators outside of delegates with the reasons, and the memory plan. The
description has no checksums, offsets or names of nodes.
""",
    attrs = dict(
        _ATTRS,
        golden = attr.label(
            mandatory = True,
            allow_single_file = [".json"],
            doc = "The committed file.",
        ),
        size_tolerance_percent = attr.int(
            default = 0,
            doc = "By how much a size in bytes may differ from the recorded one, in percent: 0 to 99.",
        ),
    ),
    test = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

program_golden_update = rule(
    implementation = _golden_update_impl,
    doc = "Writes the description of a program for a `program_golden_test` to the workspace.",
    attrs = dict(
        _ATTRS,
        path = attr.string(
            mandatory = True,
            doc = "The file, relative to the workspace.",
        ),
    ),
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)

def declare_golden_test(name, program, golden = None, **kwargs):
    """Compares a program with a committed description; `bazel run` of `NAME.update` writes it.

    Args:
        name: the target's name.
        program: the lowered program.
        golden: the committed file, in the same package; by default `NAME.json`. It need not exist for the update.
        **kwargs: `size_tolerance_percent`, and the attributes of every test.
    """
    golden = golden or name + ".json"
    program_golden_test(name = name, program = program, golden = golden, **kwargs)
    package = native.package_name()
    program_golden_update(
        name = name + ".update",
        path = (package + "/" if package else "") + golden.lstrip(":"),
        program = program,
        tags = ["manual"],
        testonly = True,
        visibility = kwargs.get("visibility"),
    )
