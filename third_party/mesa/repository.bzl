# SPDX-License-Identifier: Apache-2.0
"""`mesa`: a Vulkan driver that runs on the CPU, with its own libc, out of Debian's packages. For tests only.

It is newer than the host's: Arm's emulation layer needs Mesa 25.
"""

load("//third_party/debian:packages.bzl", "download_debian_packages")
load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":packages.bzl", "PACKAGES", "SNAPSHOT")

_BUILD = """\
exports_files(
    ["root"],
    visibility = ["//visibility:public"],
)
"""

def _mesa_impl(rctx):
    rctx.file("BUILD.bazel", _BUILD, executable = False)
    rctx.file("root/README", "Mesa's Vulkan driver for CPUs.\n", executable = False)
    downloaded = download_debian_packages(rctx, PACKAGES, SNAPSHOT, "packages")
    if downloaded.missing:
        # Tests that need it are skipped, with this reason.
        rctx.file("root/missing.txt", downloaded.missing)
        return
    extracted = rctx.execute(
        [host_python(rctx), "-B", rctx.path(rctx.attr._extract), "root"] + downloaded.files,
        environment = {"PYTHONPATH": str(rctx.path(rctx.attr._package).dirname)},
        timeout = 600,
    )
    if extracted.return_code:
        fail("cannot extract Debian's packages: %s%s" % (extracted.stdout, extracted.stderr))
    rctx.delete("packages")

mesa = repository_rule(
    implementation = _mesa_impl,
    doc = "Downloads and extracts the packages. The directory `root` has `missing.txt` instead if one cannot be had.",
    attrs = {
        "_extract": attr.label(default = "//third_party/mesa:extract.py"),
        "_package": attr.label(default = "//third_party/debian:package.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)
