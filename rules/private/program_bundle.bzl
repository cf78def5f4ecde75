# SPDX-License-Identifier: Apache-2.0
"""`program_bundle`: what an app ships, as a directory or a zip file."""

load(":delegatec_action.bzl", "ACTION_ATTRS", "delegatec_action", "delegatec_arguments")
load(":labels.bzl", "label_text")
load(":options.bzl", "fail_with")
load(":program_index.bzl", "ProgramsInfo", "programs_aspect")
load(":selected_operators.bzl", "list_operators")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

ProgramBundleInfo = provider(
    doc = "Programs, weights and licenses that an app ships.",
    fields = {
        "directory": "File: a directory with these files and `index.json`.",
        "manifests": "depset of File: the programs' manifests, as JSON. They are not part of the bundle.",
        "programs": "depset of struct(manifest, program, report, weights): Files of DelegateProgramInfo.",
        "zip": "File: the same as an uncompressed zip file. Built on demand.",
    },
)

def _path_in_bundle(file):
    """A file's path: its package and name, below the repository's name if that is another one."""
    path = file.short_path
    return path[len("../"):] if path.startswith("../") else path

def _program_arguments(program):
    return [
        "--program=" + program.program.path,
        "--manifest=" + program.manifest.path,
        "--name=" + _path_in_bundle(program.program),
        "--uses=" + (_path_in_bundle(program.weights) if program.weights else ""),
    ]

def _weights_argument(file):
    return "--weights=%s=%s" % (_path_in_bundle(file), file.path)

def _license_argument(file):
    return "--license=licenses/%s=%s" % (_path_in_bundle(file), file.path)

def _program_bundle_impl(ctx):
    programs = depset(transitive = [target[ProgramsInfo].programs for target in ctx.attr.programs])
    listed = programs.to_list()
    if not listed:
        fail_with(
            ctx.label,
            "DC512",
            "there is no program among the targets of the bundle, or below them",
            expected = "programs = [\":foo_mps\", \"//app\"]",
        )
    weights = depset([program.weights for program in listed if program.weights])
    licenses = depset(ctx.files.license_files, transitive = [target[ProgramsInfo].license_files for target in ctx.attr.programs])
    manifests = depset([program.manifest for program in listed])
    inputs = depset(
        [program.program for program in listed],
        transitive = [licenses, manifests, weights],
    )
    directory = ctx.actions.declare_directory(ctx.label.name)
    zip_file = ctx.actions.declare_file(ctx.label.name + ".zip")
    for flag, output in [("--directory=", directory), ("--zip=", zip_file)]:
        args = delegatec_arguments(ctx, "bundle")
        args.add_all(programs, map_each = _program_arguments)
        args.add_all(weights, map_each = _weights_argument)
        args.add_all(licenses, map_each = _license_argument)
        args.add(flag + output.path)
        delegatec_action(
            ctx,
            args = args,
            inputs = inputs,
            mnemonic = "DelegateBundle",
            outputs = [output],
            progress_message = "Bundling %d programs of %s" % (len(listed), label_text(ctx.label)),
        )
    return [
        DefaultInfo(
            files = depset([directory]),
            runfiles = ctx.runfiles([directory]),
        ),
        ProgramBundleInfo(directory = directory, manifests = manifests, programs = programs, zip = zip_file),
        OutputGroupInfo(
            manifests = manifests,
            selected_operators = list_operators(ctx, manifests),
            zip = depset([zip_file]),
        ),
    ]

program_bundle = rule(
    implementation = _program_bundle_impl,
    doc = """\
Collects what an app ships: the programs below some targets, with the weights that they load and texts of licenses.

`NAME` is a directory of `PACKAGE/FOO.pte` and `PACKAGE/FOO.ptd`, `licenses/` and `index.json`, which lists file, size,
sha256, label, backend, delegates, options, methods and weights of each program. The output group `zip` is the same as
`NAME.zip`, uncompressed, so that an app maps programs inside it; the group `manifests` has the programs' manifests, and
`selected_operators` the outputs of a target of `selected_operators`.
""",
    attrs = dict(ACTION_ATTRS, **{
        "license_files": attr.label_list(
            allow_files = True,
            doc = "Texts of licenses besides those of the programs' models: files in `licenses/`.",
        ),
        "programs": attr.label_list(
            mandatory = True,
            aspects = [programs_aspect],
            doc = "Programs, and targets that depend on programs: tests, file groups, applications, indexes.",
        ),
    }),
    provides = [ProgramBundleInfo],
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
