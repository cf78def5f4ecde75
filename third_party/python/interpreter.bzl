# SPDX-License-Identifier: Apache-2.0
"""A CPython that is part of the build, and the only one that actions run: a copy of the host's, or Debian's."""

load("//rules/private:labels.bzl", "load_statement")
load("//third_party/debian:packages.bzl", "download_debian_packages")
load(":debian_pythons.bzl", "PACKAGES", "SNAPSHOT")
load(":host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":rows.bzl", "ROW_ATTRIBUTES", "read_row")

_BUILD = """\

package(default_visibility = ["//visibility:public"])

exports_files([
    "bin/python3",
    "lib",
    "python.manifest",
])

# The interpreter finds the standard library next to its real path. The manifest represents its contents in the
# keys of actions, so that a sandbox links 2 files instead of 1,200. A remote worker has no such path: an action that
# may run there has `lib` as an input, too.
py_runtime(
    name = "runtime",
    files = ["python.manifest"],
    interpreter = "bin/python3",
    python_version = "PY3",
    stub_shebang = "#!/usr/bin/env python3",
)

py_runtime_pair(
    name = "runtime_pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

def _fail(message, output, row):
    fail("\n".join([
        "",
        "error DC010: " + message,
        output,
        "  help: name another CPython %s with --repo_env=DELEGATEC_PYTHON=/path/to/python" % row.python,
        "",
    ]))

def _copy_of_host(rctx, row):
    if not row.host:
        fail("\n".join([
            "",
            "error DC017: row %s takes Python from this host, which is another platform" % row.name,
            "  expected: a row of this host's platform, or one whose interpreter is \"debian\"",
            "",
        ]))
    downloaded = [python for python, platforms in PACKAGES.items() if row.platform in platforms]
    otherwise = "--repo_env=DELEGATEC_ROW=%s builds with a Python that is downloaded" % downloaded[-1] if downloaded else ""
    copied = rctx.execute(
        [host_python(rctx, version = row.python, otherwise = otherwise), "-I", "-B", rctx.path(rctx.attr._copy_interpreter), "."],
        timeout = 600,
    )
    if copied.return_code:
        _fail("the host's Python cannot be copied", copied.stderr, row)
    return "bin/python3"

def _debian(rctx, row):
    packages = PACKAGES.get(row.python, {}).get(row.platform)
    if not packages:
        known = ["%s on %s" % (python, platform) for python, platforms in PACKAGES.items() for platform in platforms]
        fail("\n".join([
            "",
            "error DC017: row %s has the interpreter \"debian\", and no packages of it are locked" % row.name,
            "  expected: Python " + " or ".join(known),
            "  help: make the row with --interpreter=host",
            "",
        ]))
    downloaded = download_debian_packages(rctx, packages, SNAPSHOT, "packages")
    if downloaded.missing:
        _fail("Debian's Python %s: %s" % (row.python, downloaded.missing), "  expected: a network that reaches Debian's mirrors", row)
    python = host_python(rctx)
    extracted = rctx.execute(
        [python, "-B", rctx.path(rctx.attr._debian_interpreter), row.python, "."] + downloaded.files,
        environment = {"PYTHONPATH": str(rctx.path(rctx.attr._package).dirname)},
        timeout = 600,
    )
    if extracted.return_code:
        _fail("Debian's Python %s cannot be extracted" % row.python, extracted.stderr, row)
    rctx.delete("packages")
    return "bin/python3" if row.host else python

def _python_interpreter_impl(rctx):
    row = read_row(rctx)
    python = _debian(rctx, row) if row.interpreter == "debian" else _copy_of_host(rctx, row)

    # The copy writes the manifest, which shows that it works.
    listed = rctx.execute([python, "-I", "-B", rctx.path(rctx.attr._compile_tree), "bin", "lib", "python.manifest"], timeout = 600)
    if listed.return_code:
        _fail("the build's copy of Python does not run", listed.stderr, row)
    loads = [load_statement(Label("@rules_python//python:%s.bzl" % name), name) for name in ("py_runtime", "py_runtime_pair")]
    rctx.file("BUILD.bazel", "".join(loads) + _BUILD, executable = False)

python_interpreter = repository_rule(
    implementation = _python_interpreter_impl,
    doc = "Makes a relocatable copy of the row's CPython, without the parts that a build does not need.",
    attrs = dict({
        "_compile_tree": attr.label(default = "//third_party/python:compile_tree.py"),
        "_copy_interpreter": attr.label(default = "//third_party/python:copy_interpreter.py"),
        "_debian_interpreter": attr.label(default = "//third_party/python:debian_interpreter.py"),
        "_package": attr.label(default = "//third_party/debian:package.py"),
    }, **ROW_ATTRIBUTES),
    environ = HOST_PYTHON_ENVIRON,
)
