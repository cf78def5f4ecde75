# SPDX-License-Identifier: Apache-2.0
"""A package with a target of each rule, and with another value of each of its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from keyed import Keyed
from keyed_programs import PROGRAMS
from keyed_users import USERS

# Nothing is built.
SOURCES: Final = {
    "board.ini": "",
    "other.ini": "",
    "net.py": "",
    "net.safetensors": "",
    "other.safetensors": "",
    "main.cc": "",
    "other.cc": "",
    "second.cc": "",
    "second.py": "SECOND = 2\n",
    "golden.json": "{}\n",
    "second.json": "{}\n",
    "variants.bzl": """\
load("//rules:defs.bzl", "program_variants_rule")

program_variants = program_variants_rule(settings = [Label("//config:mps_precision")])
""",
}

# The dependencies of the targets, and a target that shows their actions if they have none. It does not
# change.
_FIXED: Final = """\
load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_python//python:defs.bzl", "py_library")
load("//rules:defs.bzl", "delegate_program", "ethos_u_program", "exported_program", "mps_program")
load("//rules:defs.bzl", "portable_program", "program_budget_test", "program_bundle", "program_diff")
load("//rules:defs.bzl", "program_golden_test", "program_index", "program_inspect", "program_profile")
load("//rules:defs.bzl", "program_report", "program_runtime", "program_test", "program_variant")
load("//rules:defs.bzl", "program_explain")
load("//rules:defs.bzl", "app_budget_test", "app_kernels", "delegate_runtime", "quantized_program")
load("//rules:defs.bzl", "mlx_program", "program_accuracy_test", "program_benchmark", "selected_operators")
load("//rules:defs.bzl", "tosa_program", "vgf_program", "vulkan_program", "xnnpack_program")
load("//rules:sbom.bzl", "program_licenses", "program_sboms")
load("//rules/private:runtime_library.bzl", "runtime_library")
load(":variants.bzl", "program_variants")

py_library(name = "library", srcs = ["second.py"])
py_library(name = "library_again", srcs = ["net.py"])
sh_test(name = "of_bazel", srcs = ["second.py"])
filegroup(name = "also_of_bazel")
exported_program(name = "fixed", srcs = ["net.py"], entry = "net:build")
exported_program(name = "fixed_again", srcs = ["net.py"], entry = "net:build")
app_kernels(name = "fixed_kernels", deps = [":library"], kernels = ["dsp::window.out"], module = "second")
exported_program(name = "with_kernels", srcs = ["net.py"], entry = "net:build", kernels = [":kernels"])
quantized_program(name = "fixed_int8", activation = "float", program = ":fixed")
portable_program(name = "fixed_int8_portable", program = ":fixed_int8")
mps_program(name = "fixed_mps", program = ":fixed")
mps_program(name = "other_mps", program = ":fixed")
program_variants(
    name = "fixed_variants",
    programs = [":fixed_mps", ":other_mps"],
    variants = {"full": ["mps_precision=fp32"], "half": ["mps_precision=fp16"]},
)
program_variants(
    name = "other_variants",
    programs = [":fixed_mps", ":other_mps"],
    variants = {"full": [], "half": ["mps_precision=fp16"]},
)
program_runtime(name = "fixed_runtime", deps = [":library"], runtime = "second:RUNTIME")
cc_library(name = "cc", srcs = ["second.cc"])
cc_library(name = "other_cc", srcs = ["other.cc"])
runtime_library(
    name = "linked",
    all_backends = True,
    libraries = ["etdump", "executorch", "kernels", "quantized_kernels", "threadpool"],
    runtime = ":cc_runtime",
)
cc_binary(name = "shows_cc_runtime", srcs = ["main.cc"], deps = [":linked"])
portable_program(name = "shows_kernels", program = ":with_kernels")
program_report(name = "shows_variant", program = ":variant")
program_test(name = "shows_runtime", program = ":fixed_mps", runtime = ":runtime")
program_bundle(name = "shows_sboms", license_files = [":sboms"], programs = [":fixed_mps"])
"""

# Of sh_test and filegroup, but also of some of our rules.
_NOT_OF_BAZEL: Final = {"data", "deps", "path", "srcs"}
# Of every rule in Starlark, for Bazel itself.
_OF_STARLARK: Final = {"expect_failure"}

TARGETS: Final[dict[str, Keyed]] = {**PROGRAMS, **USERS}


def build_file(step: int | None = None) -> str:
    """Returns a BUILD file with all targets.

    Args:
        step: which of its attributes each target sets to another value, if it has that many; None for none.
    """
    declared = [_FIXED]
    for name, target in TARGETS.items():
        values = target.values()
        changed = values[step] if step is not None and step < len(values) else ("", "")
        declared.append(target.declared(name, *changed))
    return "".join(declared)


def own_attributes(attributes: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Returns the attributes of each target that are not of Bazel.

    Args:
        attributes: target -> all attributes, also of `of_bazel` and `also_of_bazel`.
    """
    of_bazel = (attributes["of_bazel"] | attributes["also_of_bazel"] | _OF_STARLARK) - _NOT_OF_BAZEL
    return {
        name: attributes[target.shown_by if target.shown_by.startswith(name) else name] - of_bazel
        for name, target in TARGETS.items()
    }
