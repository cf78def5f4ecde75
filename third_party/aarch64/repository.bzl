# SPDX-License-Identifier: Apache-2.0
"""`@delegatec_aarch64`: a C++ compiler for aarch64 and an emulator of its CPUs, out of Debian's packages."""

load("//third_party/debian:packages.bzl", "download_debian_packages")
load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":packages.bzl", "PACKAGES", "SNAPSHOT")

_HOST = "Linux x86_64"

def _again(name):
    """Returns the command that fetches a repository again: Bazel keeps one without packages."""
    of_a_module = "~" in name or "+" in name
    return ("bazel fetch --force --repo=@@" if of_a_module else "bazel sync --only=") + name

def _aarch64_impl(rctx):
    rctx.symlink(rctx.attr._build_file, "BUILD.bazel")
    host = rctx.execute(["uname", "-s", "-m"]).stdout.strip()
    if host != _HOST:
        rctx.file("missing.txt", "the emulator runs on %s, and this host is %s\n" % (_HOST, host))
        return
    downloaded = download_debian_packages(rctx, PACKAGES, SNAPSHOT, "packages")
    if downloaded.missing:
        rctx.file("missing.txt", "%s; to try again: %s\n" % (downloaded.missing, _again(rctx.name)))
        return
    extracted = rctx.execute(
        [host_python(rctx), "-B", rctx.path(rctx.attr._extract), "."] + downloaded.files,
        environment = {"PYTHONPATH": str(rctx.path(rctx.attr._package).dirname)},
        timeout = 600,
    )
    if extracted.return_code:
        fail("cannot extract Debian's packages: %s%s" % (extracted.stdout, extracted.stderr))
    rctx.delete("packages")

_aarch64 = repository_rule(
    implementation = _aarch64_impl,
    doc = """\
Downloads and extracts the packages.

It has `missing.txt` instead if one cannot be had, or for another host, so that only tests that need it fail.
""",
    attrs = {
        "_build_file": attr.label(default = "//third_party/aarch64:tools.BUILD.bazel"),
        "_extract": attr.label(default = "//third_party/aarch64:extract.py"),
        "_package": attr.label(default = "//third_party/debian:package.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)

def aarch64_tools(existing = []):
    """Declares @delegatec_aarch64, which Bazel fetches for a test on an Arm CPU only.

    Args:
        existing: names of repositories that are already declared, which are not changed.
    """
    if "delegatec_aarch64" not in existing:
        _aarch64(name = "delegatec_aarch64")
