# SPDX-License-Identifier: Apache-2.0
"""The flatc toolchain: the schema compiler, and the runtime that its generated code imports."""

load("//rules/private:python_paths.bzl", "PYTHON_PROVIDERS")

FlatcInfo = provider(
    doc = "The schema compiler: `toolchain.flatc` of the resolved toolchain.",
    fields = {
        "flatc": "FilesToRunProvider: the schema compiler.",
        "python_runtime": "Target: the library of the Python package `flatbuffers`, with PyInfo.",
    },
)

def _flatc_toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(
        flatc = FlatcInfo(
            flatc = ctx.attr.flatc[DefaultInfo].files_to_run,
            python_runtime = ctx.attr.python_runtime,
        ),
    )]

flatc_toolchain = rule(
    implementation = _flatc_toolchain_impl,
    doc = "Declares flatc and the runtime of the same release.",
    attrs = {
        "flatc": attr.label(
            mandatory = True,
            allow_single_file = True,
            cfg = "exec",
            doc = "The schema compiler's executable.",
            executable = True,
        ),
        "python_runtime": attr.label(
            mandatory = True,
            doc = "The library of the Python package `flatbuffers`.",
            providers = PYTHON_PROVIDERS,
        ),
    },
)
