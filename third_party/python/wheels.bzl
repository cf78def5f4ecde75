# SPDX-License-Identifier: Apache-2.0
"""Hash-locked wheels as one directory."""

load("//rules/private:labels.bzl", "label_text", "load_statement")
load(":host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":rows.bzl", "ROW_ATTRIBUTES", "read_row", "row_python")

_BUILD = """\

package(default_visibility = ["//visibility:public"])

# The directory is one input, which a sandbox links once. The manifest represents its contents in the keys of
# actions.
exports_files([
    "site-packages",
    "site-packages.manifest",
])

exports_files({exports})

py_library(
    name = "lib",
    data = [
        "site-packages",
        "site-packages.manifest",
    ],
    imports = ["site-packages"],
)
"""

def _wheels_impl(rctx):
    # First: Bazel runs the rule again if a file is not there yet.
    replaced = {path: rctx.read(source) for path, source in zip(rctx.attr.replaced, rctx.attr.replacements)}
    row = read_row(rctx)
    if "==" not in rctx.read(rctx.attr.lock):
        fail("\n".join([
            "",
            "error DC017: row %s has no lock of %s" % (row.name, rctx.attr.lock.name),
            "  expected: a row for which pip finds all of its wheels",
            "  help: use another row, or a target that does not need these wheels",
            "",
        ]))
    install = [host_python(rctx, modules = ["pip"]), "-B", rctx.path(rctx.attr._install_wheels)]
    install += ["--row", row.file, "--lock", rctx.path(rctx.attr.lock), "--target", "site-packages"]
    for pattern in rctx.attr.drop:
        install += ["--drop", pattern]
    for path in rctx.attr.keep:
        install += ["--keep", path]
    rctx.report_progress("Installing wheels")
    installed = rctx.execute(install, timeout = 3600)
    if installed.return_code:
        fail("\n".join([
            "",
            "error DC011: the wheels of %s cannot be installed" % label_text(rctx.attr.lock),
            installed.stdout + installed.stderr,
            "  expected: pip finds each of them, with the hash that is locked",
            "  help: PyPI has no torch for CPUs on Linux: set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, or " +
            "PIP_FIND_LINKS to a directory with the wheel",
            "",
        ]))
    for path, content in replaced.items():
        rctx.file("site-packages/" + path, content, executable = False)
    rctx.report_progress("Compiling modules")
    compiled = rctx.execute(
        [row_python(rctx, row), "-I", "-B", rctx.path(rctx.attr._compile_tree), "site-packages", "site-packages.manifest"],
        timeout = 3600,
    )
    if compiled.return_code:
        fail("\n".join([
            "",
            "error DC011: the wheels of %s cannot be compiled" % label_text(rctx.attr.lock),
            compiled.stdout + compiled.stderr,
            "  help: is the disk full? The next build tries again",
            "",
        ]))
    rctx.file(
        "BUILD.bazel",
        load_statement(Label("@rules_python//python:defs.bzl"), "py_library") + _BUILD.format(exports = repr(["site-packages/" + path for path in rctx.attr.exports])),
        executable = False,
    )

wheels = repository_rule(
    implementation = _wheels_impl,
    doc = "Installs the wheels of one lock with pip, trims them, and compiles their modules.",
    attrs = dict({
        "drop": attr.string_list(
            doc = "Patterns of files to remove, relative to site-packages (`**` matches nested directories).",
        ),
        "exports": attr.string_list(
            doc = "Files in site-packages that are exported.",
        ),
        "keep": attr.string_list(
            doc = "Files and directories in site-packages to keep although a pattern of `drop` matches.",
        ),
        "lock": attr.label(
            mandatory = True,
            doc = "The lock: a requirements file with versions and hashes.",
        ),
        "replaced": attr.string_list(
            doc = "Files in site-packages that others replace.",
        ),
        "replacements": attr.label_list(
            allow_files = True,
            doc = "The files that replace them, in this order.",
        ),
        "_compile_tree": attr.label(default = "//third_party/python:compile_tree.py"),
        "_install_wheels": attr.label(default = "//third_party/python:install_wheels.py"),
        "_interpreter": attr.label(default = "@delegatec_python//:bin/python3"),
    }, **ROW_ATTRIBUTES),
    environ = HOST_PYTHON_ENVIRON,
)
