# SPDX-License-Identifier: Apache-2.0
"""`mesa`: a Vulkan driver that runs on the CPU, with its own libc, out of Debian's packages, for tests.

It is newer than the host's: Arm's emulation layer needs Mesa 25.
"""

load("//rules/private:labels.bzl", "load_statement")
load("//third_party/debian:packages.bzl", "download_debian_packages")
load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":packages.bzl", "PACKAGES", "SNAPSHOT")

_BUILD = """\

package(default_visibility = ["//visibility:public"])

exports_files(["root"])

# A module that says where the directory is.
py_library(
    name = "lib",
    srcs = ["delegatec_mesa_root.py"],
    data = ["root"],
    imports = ["."],
)
"""

_MODULE = """\
from pathlib import Path

ROOT = Path(__file__).parent / "root"
"""

def _mesa_impl(rctx):
    rctx.file("BUILD.bazel", load_statement(Label("@rules_python//python:defs.bzl"), "py_library") + _BUILD, executable = False)
    rctx.file("delegatec_mesa_root.py", _MODULE, executable = False)
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

_mesa = repository_rule(
    implementation = _mesa_impl,
    doc = "Downloads and extracts the packages. The directory `root` has `missing.txt` instead if one cannot be had.",
    attrs = {
        "_extract": attr.label(default = "//third_party/mesa:extract.py"),
        "_package": attr.label(default = "//third_party/debian:package.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)

def mesa(existing = []):
    """Declares @delegatec_mesa.

    Args:
        existing: names of repositories that are already declared, which are not changed.
    """
    name = "delegatec_mesa"
    if name not in existing:
        _mesa(name = name)
