# SPDX-License-Identifier: Apache-2.0
"""`wheels`, for users of the rules: the wheels of a team's own lock, to run in one process with the compiler's."""

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

py_library(
    name = "lib",
    data = [
        "site-packages",
        "site-packages.manifest",
    ],
    imports = ["site-packages"],
)

# For the `license_files` of a model whose code or weights are in a wheel. Texts are in `licenses`, or next to METADATA.
filegroup(
    name = "licenses",
    srcs = glob(
        ["site-packages/*.dist-info/licenses/**"] + [
            "site-packages/*.dist-info/" + name
            for name in ["AUTHORS*", "COPYING*", "LICENCE*", "LICENSE*", "NOTICE*"]
        ],
        allow_empty = True,
    ),
)
"""

# The status of team_wheels.py for wheels that do not fit.
_DOES_NOT_FIT = 3

def _shown(label):
    return label.package + "/" + label.name if label.package else label.name

def _lock(rctx):
    """Returns the label of the one lock."""
    if bool(rctx.attr.lock) == bool(rctx.attr.uv_lock):
        _fail(rctx, "has `lock` and `uv_lock`" if rctx.attr.lock else "has neither `lock` nor `uv_lock`", "one of them")
    if rctx.attr.lock and (rctx.attr.project or rctx.attr.extras or rctx.attr.groups):
        _fail(rctx, "`project`, `extras` and `groups` need `uv_lock`", "a `uv_lock`, or only `lock`, whose wheels are all installed")
    return rctx.attr.lock or rctx.attr.uv_lock

def _fail(rctx, problem, expected):
    fail("\n".join(["", "error DC016: wheels %s: %s" % (rctx.name, problem), "  expected: " + expected, ""]))

def _wheels_impl(rctx):
    for script in [rctx.attr._install_wheels, rctx.attr._locked_wheels, rctx.attr._uv_locks, rctx.attr._wheels_fit]:
        rctx.path(script)
    lock = _lock(rctx)
    row = read_row(rctx)
    compiler = rctx.path(rctx.attr._compiler_lock)
    install = [host_python(rctx, modules = ["pip"]), "-B", rctx.path(rctx.attr._team_wheels), "--row", row.file]
    install += ["--uv-lock" if rctx.attr.uv_lock else "--lock", "%s=%s" % (_shown(lock), rctx.path(lock))]
    install += ["--project", rctx.attr.project] if rctx.attr.project else []
    install += ["--compiler", "the compiler's lock=%s" % compiler]
    install += ["--compiler-site", "%s/site-packages" % rctx.path(rctx.attr._compiler_manifest).dirname]
    install += ["--target", "site-packages"]
    for other in rctx.attr.other_locks:
        install += ["--other-lock", "%s=%s" % (_shown(other), rctx.path(other))]
    for folder in {str(rctx.path(file).dirname): None for file in rctx.attr.files}:
        install += ["--find-links", folder]
    for flag, values in [
        ("--allow-missing", rctx.attr.allow_missing),
        ("--drop", rctx.attr.drop),
        ("--extra", rctx.attr.extras),
        ("--group", rctx.attr.groups),
        ("--keep", rctx.attr.keep),
    ]:
        for value in values:
            install += [flag, value]
    rctx.report_progress("Installing wheels")
    installed = rctx.execute(install, timeout = 3600)
    if installed.return_code == _DOES_NOT_FIT:
        fail("\n".join([
            "",
            "error DC016: the wheels of %s cannot be used together with the compiler's" % label_text(lock),
        ] + ["  " + line for line in installed.stdout.strip().split("\n")] + [
            "  expected: a version and a hash of each wheel, the compiler's version of those that both have, all that the wheels need, and no wheels for GPUs",
            "  help: resolve again with %s and torch's index of CPU wheels; list distributions that the model does not need in `allow_missing`, files in `drop`" % (
                "the compiler's versions (%s) as tool.uv.constraint-dependencies" % compiler if rctx.attr.uv_lock else "--generate-hashes, --constraint=%s" % compiler
            ),
            "",
        ]))
    if installed.return_code:
        fail("\n".join([
            "",
            "error DC011: the wheels of %s cannot be installed" % label_text(lock),
            installed.stdout + installed.stderr,
            "  expected: pip finds each of them, with the hash that is locked",
            "  help: list wheels that no index has in `files`, or set PIP_FIND_LINKS to a directory with them",
            "",
        ]))
    rctx.report_progress("Compiling modules")
    compiled = rctx.execute(
        [row_python(rctx, row), "-I", "-B", rctx.path(rctx.attr._compile_tree), "site-packages", "site-packages.manifest"],
        timeout = 3600,
    )
    if compiled.return_code:
        fail("\n".join([
            "",
            "error DC011: the wheels of %s cannot be compiled" % label_text(lock),
            compiled.stdout + compiled.stderr,
            "  help: is the disk full? The next build tries again",
            "",
        ]))
    rctx.file("BUILD.bazel", load_statement(Label("@rules_python//python:defs.bzl"), "py_library") + _BUILD, executable = False)

wheels = repository_rule(
    implementation = _wheels_impl,
    doc = """\
Installs the wheels of a team's own lock with pip, without dependencies, as `@NAME//:lib` for the `deps` of an
`exported_program`, a `delegate_program` or a `py_library`.

`@NAME//:licenses` are the texts of the wheels' licenses, for the `license_files` of a model whose weights or code are in
a wheel.

A wheel that the compiler has in the same version is left to it. Wheels that do not fit the compiler's are an error
(DC016) that lists all of them: other versions, missing requirements, modules with the same name, wheels for GPUs.
""",
    attrs = dict({
        "allow_missing": attr.string_list(
            doc = "Distributions that wheels of the lock require, but the model does not need.",
        ),
        "drop": attr.string_list(
            doc = "Patterns of files to remove, relative to the directory of modules (`**` matches nested directories).",
        ),
        "extras": attr.string_list(
            doc = "Optional dependencies of the project in `uv_lock`.",
        ),
        "files": attr.label_list(
            allow_files = [".whl"],
            doc = "Wheels in the workspace, such as private ones; pip finds the others in its indexes and in PIP_FIND_LINKS.",
        ),
        "groups": attr.string_list(
            doc = "Dependency groups of the project in `uv_lock`. None is a default, not even `dev`.",
        ),
        "keep": attr.string_list(
            doc = "Files and directories to keep although a pattern of `drop` matches.",
        ),
        "lock": attr.label(
            allow_single_file = True,
            doc = "The lock: a requirements file with versions and hashes, as pip-compile and uv write it.",
        ),
        "other_locks": attr.label_list(
            allow_files = True,
            doc = "Locks of other `wheels` in the `deps` of the same targets, which are left to them and compared.",
        ),
        "project": attr.string(
            doc = "The project in `uv_lock` whose dependencies are installed. Default: the one next to the lock.",
        ),
        "uv_lock": attr.label(
            allow_single_file = True,
            doc = "Instead of `lock`, a uv.lock: what one of its projects needs on this platform.",
        ),
        "_compile_tree": attr.label(default = "//third_party/python:compile_tree.py"),
        "_compiler_lock": attr.label(default = "@delegatec_row//:compiler.lock.txt"),
        "_compiler_manifest": attr.label(default = "@delegatec_pip_compiler//:site-packages.manifest"),
        "_install_wheels": attr.label(default = "//third_party/python:install_wheels.py"),
        "_interpreter": attr.label(default = "@delegatec_python//:bin/python3"),
        "_locked_wheels": attr.label(default = "//third_party/python:locked_wheels.py"),
        "_team_wheels": attr.label(default = "//third_party/python:team_wheels.py"),
        "_uv_locks": attr.label(default = "//third_party/python:uv_locks.py"),
        "_wheels_fit": attr.label(default = "//third_party/python:wheels_fit.py"),
    }, **ROW_ATTRIBUTES),
    environ = HOST_PYTHON_ENVIRON,
)
