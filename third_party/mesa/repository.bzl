# SPDX-License-Identifier: Apache-2.0
"""`mesa`: a Vulkan driver that runs on the CPU, with its own libc, out of Debian's packages. For tests only.

It is newer than the host's: Arm's emulation layer needs Mesa 25.
"""

load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":packages.bzl", "PACKAGES", "SNAPSHOT")

MIRRORS = [
    "http://deb.debian.org/debian/pool/main/",
    "http://snapshot.debian.org/archive/debian/%s/pool/main/" % SNAPSHOT,
]

_BUILD = """\
exports_files(
    ["root"],
    visibility = ["//visibility:public"],
)
"""

def _mesa_impl(rctx):
    rctx.file("BUILD.bazel", _BUILD, executable = False)
    rctx.file("root/README", "Mesa's Vulkan driver for CPUs.\n", executable = False)
    files = []
    for path, sha256 in PACKAGES.items():
        file = "packages/" + path.split("/")[-1].replace("+", "-").replace("~", "-")
        rctx.report_progress("Downloading " + path)
        done = rctx.download(
            allow_fail = True,
            output = file,
            sha256 = sha256,
            url = [mirror + path for mirror in MIRRORS],
        )
        if not done.success:
            # Tests that need it are skipped, with this reason.
            rctx.delete("packages")
            rctx.file("root/missing.txt", "%s cannot be downloaded from %s" % (path, " or ".join(MIRRORS)))
            return
        files.append(file)
    extracted = rctx.execute(
        [host_python(rctx), "-I", "-B", rctx.path(rctx.attr._extract), "root"] + files,
        timeout = 600,
    )
    if extracted.return_code:
        fail("cannot extract Debian's packages: %s%s" % (extracted.stdout, extracted.stderr))
    rctx.delete("packages")

mesa = repository_rule(
    implementation = _mesa_impl,
    doc = "Downloads and extracts the packages. The directory `root` has `missing.txt` instead if one cannot be had.",
    attrs = {"_extract": attr.label(default = "//third_party/mesa:extract.py")},
    environ = HOST_PYTHON_ENVIRON,
)
