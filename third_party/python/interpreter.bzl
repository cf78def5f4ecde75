# SPDX-License-Identifier: Apache-2.0
"""A CPython that is part of the build: a copy of the host's, and the only one that actions run."""

load("//rules/private:labels.bzl", "load_statement")
load(":host.bzl", "HOST_PYTHON_ENVIRON", "host_python")

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

def _fail(message, output):
    fail("\n".join([
        "",
        "error DC010: " + message,
        output,
        "  help: name another CPython 3.11 with --repo_env=DELEGATEC_PYTHON=/path/to/python",
        "",
    ]))

def _python_interpreter_impl(rctx):
    copied = rctx.execute([host_python(rctx), "-I", "-B", rctx.path(rctx.attr._copy_interpreter), "."], timeout = 600)
    if copied.return_code:
        _fail("the host's Python cannot be copied", copied.stderr)

    # The copy writes the manifest, which shows that it works.
    listed = rctx.execute(["bin/python3", "-I", "-B", rctx.path(rctx.attr._compile_tree), "bin", "lib", "python.manifest"], timeout = 600)
    if listed.return_code:
        _fail("the copy of the host's Python does not run", listed.stderr)
    loads = [load_statement(Label("@rules_python//python:%s.bzl" % name), name) for name in ("py_runtime", "py_runtime_pair")]
    rctx.file("BUILD.bazel", "".join(loads) + _BUILD, executable = False)

python_interpreter = repository_rule(
    implementation = _python_interpreter_impl,
    doc = "Makes a relocatable copy of the host's CPython 3.11, without the parts that a build does not need.",
    attrs = {
        "_compile_tree": attr.label(default = "//third_party/python:compile_tree.py"),
        "_copy_interpreter": attr.label(default = "//third_party/python:copy_interpreter.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)
