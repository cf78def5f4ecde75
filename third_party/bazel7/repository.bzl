# SPDX-License-Identifier: Apache-2.0
"""`bazel7`: Bazel 7 out of Debian's unstable distribution, which runs on Debian 12. For tests only."""

load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")

_BUILD = """\
exports_files(
    ["bin"],
    visibility = ["//visibility:public"],
)
"""

def _bazel7_impl(rctx):
    for script in [rctx.attr._debian_packages, rctx.attr._relocate]:
        rctx.path(script)
    rctx.report_progress("Downloading Bazel 7")
    installed = rctx.execute([host_python(rctx), "-B", rctx.path(rctx.attr._install), "."], timeout = 1800)
    if installed.return_code:
        fail("cannot install Bazel 7: %s%s" % (installed.stdout, installed.stderr))
    rctx.file("BUILD.bazel", _BUILD, executable = False)

bazel7 = repository_rule(
    implementation = _bazel7_impl,
    doc = """\
Downloads, extracts and relocates the packages. The host's packages do not change.

The directory `bin` has `bazel`; or `missing.txt`, with the reason, if that fails, such as when the
distribution cannot be reached or has changed.
""",
    attrs = {
        "_debian_packages": attr.label(default = "//third_party/bazel7:debian_packages.py"),
        "_install": attr.label(default = "//third_party/bazel7:install.py"),
        "_relocate": attr.label(default = "//third_party/bazel7:relocate.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)
