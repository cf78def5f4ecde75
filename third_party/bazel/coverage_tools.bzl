# SPDX-License-Identifier: Apache-2.0
"""The two tools that Bazel loads for every test and runs under `bazel coverage`."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

sh_binary(
    name = "lcov_merger",
    srcs = ["lcov_merger.sh"],
)

sh_binary(
    name = "coverage_report_generator",
    srcs = ["coverage_report_generator.sh"],
)
"""

def _coverage_tools_impl(rctx):
    rctx.symlink(rctx.attr._lcov_merger, "lcov_merger.sh")
    rctx.symlink(rctx.attr._coverage_report_generator, "coverage_report_generator.sh")
    rctx.file("BUILD.bazel", _BUILD, executable = False)

coverage_tools = repository_rule(
    implementation = _coverage_tools_impl,
    doc = "Joins lcov files. Replaces Bazel's Java tools of the same name, which are a separate download.",
    attrs = {
        "_coverage_report_generator": attr.label(default = "//third_party/bazel:coverage_report_generator.sh"),
        "_lcov_merger": attr.label(default = "//third_party/bazel:lcov_merger.sh"),
    },
)
