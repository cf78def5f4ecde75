# SPDX-License-Identifier: Apache-2.0
"""`delegatec_command`: an executable that runs one verb of the compiler."""

load(":launcher.bzl", "delegatec_launcher")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "merged_python")
load(":toolchain_types.bzl", "DELEGATEC_TOOLCHAIN_TYPE")

def _delegatec_command_impl(ctx):
    python = merged_python(ctx, ctx.attr.deps)
    return [delegatec_launcher(
        ctx,
        arguments = [],
        files = [],
        imports = python.imports,
        plugin_files = python.files,
        verb = ctx.attr.verb,
    )]

delegatec_command = rule(
    implementation = _delegatec_command_impl,
    doc = "Runs a verb of the compiler with the arguments of `bazel run`.",
    attrs = {
        "deps": attr.label_list(
            doc = "Python libraries that the verb imports.",
            providers = PYTHON_PROVIDERS,
        ),
        "verb": attr.string(
            mandatory = True,
            doc = "The verb, such as \"inspect\".",
        ),
    },
    executable = True,
    toolchains = [DELEGATEC_TOOLCHAIN_TYPE],
)
