# SPDX-License-Identifier: Apache-2.0
"""A target of each rule, and another value of each of its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Values = Mapping[str, str]
"""Attribute -> its value in Starlark."""

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


@dataclass(frozen=True)
class Keyed:
    """A target of a rule.

    Attributes:
        rule: the rule's name.
        own: the target's attributes.
        others: for each attribute of the rule, another value, with which its actions have another key.
        unkeyed: the same for attributes that change no action of the target.
        shown_by: the target whose actions count; by default the target itself.
        set_by: attribute of a rule -> that of its macro, if the macro has another one.
    """

    rule: str
    own: Values
    others: Values
    unkeyed: Values = field(default_factory=dict)
    shown_by: str = ""
    set_by: Values = field(default_factory=dict)

    def values(self) -> list[tuple[str, str]]:
        """Returns the other values of all attributes."""
        return [*self.others.items(), *self.unkeyed.items()]

    def declared(self, name: str, attribute: str = "", value: str = "") -> str:
        """Returns the declaration of the target, optionally with another value of an attribute."""
        values = {**self.own, **({self.set_by.get(attribute, attribute): value} if attribute else {})}
        return (
            f"{self.rule}(name = {name!r}, {', '.join(f'{key} = {text}' for key, text in values.items())})\n"
        )


_LOWERED: Final = {
    "channels_last_inputs": "True",
    "channels_last_outputs": "True",
    "constant_alignment": "64",
    "external_weights": "True",
    "memories": '{"sram": "512k"}',
    "plan_inputs": "False",
    "plan_outputs": "False",
    "program": '":fixed_again"',
    "segment_alignment": "64",
}
_DELEGATED: Final = {
    **_LOWERED,
    "all_or_nothing": "True",
    "allow_modules": '["linear"]',
    "allow_operators": '["aten.relu"]',
    "block_modules": '["linear"]',
    "block_operators": '["aten.relu"]',
    "delegate_alignment": "64",
    "inline_delegates": "True",
    "maximum_delegates": "3",
    "method_backends": '{"forward": ["portable"]}',
    "minimum_nodes": "2",
    "require_full_delegation": "True",
    "silenced_notes": '["avoided-fault"]',
    "tools": '[":library_again"]',
}
_HALF: Final = {"fp16_overflow": '"saturate"', "precision": '"fp32"'}
_BACKENDS: Final = {
    "ethos_u": {
        "accelerator": '"ethos-u55-256"',
        "config": '"other.ini"',
        "extra_flags": '"--optimise=Size"',
        "memory_mode": '"Other"',
        "stage": '"tosa"',
        "system_config": '"Other"',
    },
    "mlx": {**_HALF, "runtime": '"1.4.1"'},
    "mps": {**_HALF, "int4": '"packed"'},
    "tosa": {"specification": '"TOSA-1.0+INT"'},
    "vgf": {"specification": '"TOSA-1.0+INT"'},
    "vulkan": {**_HALF, "device": '"adreno-840"', "storage": '"buffer"', "textures": '"desktop"'},
    "xnnpack": {**_HALF, "recurrent": '"unrolled"'},
}
# Without them a target cannot set the others.
_REQUIRED: Final = {
    "ethos_u": {"config": '"board.ini"', "memory_mode": '"Shared"', "system_config": '"Board"'},
    **{name: {"precision": '"fp16"'} for name in ("mlx", "mps", "vulkan", "xnnpack")},
}
_ONE: Final = {"programs": '[":fixed_mps"]'}
_ANOTHER: Final = {"programs": '[":other_mps"]'}
_OF_PROGRAM: Final = {"program": '":fixed_mps"'}
_OF_ANOTHER: Final = {"program": '":other_mps"'}
_METRIC: Final = {"deps": '[":library"]', "metric": '"second:top1"'}
_LIMITS: Final = (
    "arena_kib cycles delegates dram_kib file_kib flash_kib method_allocator_kib operators sram_kib "
    "temporary_allocator_kib undelegated weights_kib"
)
_LIBRARIES: Final = "etdump executorch kernels quantized_kernels threadpool"

TARGETS: Final[dict[str, Keyed]] = {
    "exported": Keyed(
        "exported_program",
        {"srcs": '["net.py"]', "data": '["net.safetensors"]', "entry": '"net:build"'},
        {
            "kernels": '[":fixed_kernels"]',
            "data": '["net.safetensors", "BUILD.bazel"]',
            "deps": '[":library"]',
            "entry": '"net:other"',
            "samples": "3",
            "seed": "3",
            "srcs": '["net.py", "second.py"]',
            "weights_alignment": "64",
        },
        # For bills of materials and bundles: they export nothing again.
        unkeyed={"license": '"MIT"', "license_files": '["second.py"]'},
    ),
    "quantized": Keyed(
        "quantized_program",
        {"program": '":fixed"', "srcs": '["net.py"]', "calibration_entry": '"net:build"'},
        {
            "activation": '"int16"',
            "calibration": '["net.safetensors"]',
            "calibration_entry": '"net:other"',
            "data": '["net.safetensors"]',
            "deps": '[":library"]',
            "float_modules": '["linear"]',
            "float_operators": '["aten.relu"]',
            "inner": '"int16"',
            "minimum_snr_db": "20",
            "observer": '"minmax"',
            "program": '":fixed_again"',
            "quantize_io": "True",
            "ranges": '"symmetric"',
            "seed": "3",
            "srcs": '["net.py", "second.py"]',
            "weight": '"int4"',
            "weight_scales": '"tensor"',
            "weights_alignment": "64",
        },
    ),
    "quantized_in_groups": Keyed(
        "quantized_program",
        {"program": '":fixed"', "activation": '"dynamic_int8"', "weight": '"int4"'},
        {"group_size": "32"},
    ),
    "quantized_by_loss": Keyed(
        "quantized_program",
        {
            "program": '":fixed"',
            **_METRIC,
            "calibration": '["net.safetensors"]',
            "dataset": '"net.safetensors"',
            "maximum_loss": '"0.1"',
        },
        {
            "dataset": '"other.safetensors"',
            "maximum_loss": '"0.2"',
            "metric": '"second:f1"',
            "metric_over": '"dataset"',
        },
    ),
    "quantized_by_entry": Keyed(
        "quantized_program",
        {
            "program": '":fixed"',
            **_METRIC,
            "activation": '"dynamic_int8"',
            "dataset_entry": '"second:DATA"',
            "maximum_loss": '"0.1"',
        },
        {"dataset_entry": '"second:MORE"'},
    ),
    "portable": Keyed("portable_program", {"program": '":fixed"'}, _LOWERED),
    **{
        name: Keyed(
            f"{name}_program", {"program": '":fixed"', **_REQUIRED.get(name, {})}, {**_DELEGATED, **options}
        )
        for name, options in _BACKENDS.items()
    },
    "delegated": Keyed(
        "delegate_program",
        {"program": '":fixed"', "backends": '["second:BACKEND"]', "deps": '[":library"]'},
        {
            **_DELEGATED,
            "backends": '["second:OTHER"]',
            "deps": '[":library", ":library_again"]',
            "list_options": '{"flags": ["--a", "--b"]}',
            "options": '{"level": "2"}',
        },
        set_by={"list_options": "options"},
    ),
    "tested": Keyed(
        "program_test",
        {**_OF_PROGRAM, "srcs": '["net.py"]', "inputs_entry": '"net:build"'},
        {
            **_OF_ANOTHER,
            "atol": '"1"',
            "cpus": '["cortex-a53"]',
            "data": '["net.safetensors"]',
            "deps": '[":library"]',
            "inputs": '["net.safetensors"]',
            "inputs_entry": '"net:other"',
            "rtol": '"1"',
            "runtime": '":fixed_runtime"',
            "seeds": "5",
            "srcs": '["net.py", "second.py"]',
            "tolerances": '{"float32": "1"}',
        },
    ),
    "tested_in_int8": Keyed("program_test", {"program": '":fixed_int8_portable"'}, {"minimum_snr_db": "20"}),
    "accuracy": Keyed(
        "program_accuracy_test",
        {**_OF_PROGRAM, **_METRIC, "dataset": '"net.safetensors"', "floor": '"0.9"'},
        {
            **_OF_ANOTHER,
            "baseline": '":other_mps"',
            "dataset": '"other.safetensors"',
            "deps": '[":library", ":library_again"]',
            "floor": '"0.8"',
            "method": '"other"',
            "metric": '"second:f1"',
            "metric_over": '"dataset"',
            "runtime": '":fixed_runtime"',
        },
    ),
    "accuracy_loss": Keyed(
        "program_accuracy_test",
        {
            **_OF_PROGRAM,
            **_METRIC,
            "baseline": '":other_mps"',
            "dataset_entry": '"second:DATA"',
            "maximum_loss": '"0.1"',
        },
        {"dataset_entry": '"second:MORE"', "maximum_loss": '"0.2"'},
    ),
    "runtime": Keyed(
        "program_runtime",
        {"deps": '[":library"]', "runtime": '"second:RUNTIME"'},
        {"deps": '[":library", ":library_again"]', "runtime": '"second:OTHER"'},
        shown_by="shows_runtime",
    ),
    "cc_runtime": Keyed(
        "delegate_runtime",
        {"backends": '{":cc": "Backend"}', **dict.fromkeys(_LIBRARIES.split(), '":cc"')},
        {"backends": '{":other_cc": "Backend"}', **dict.fromkeys(_LIBRARIES.split(), '":other_cc"')},
        shown_by="shows_cc_runtime",
    ),
    "app_budget": Keyed(
        "app_budget_test",
        {"app": '":inspected"', "max_kib": "7"},
        {"app": '":profiled"', "max_kib": "8"},
    ),
    "budget": Keyed(
        "program_budget_test",
        {**_OF_PROGRAM, "max_delegates": "1"},
        {**_OF_ANOTHER, **{f"max_{limit}": "7" for limit in _LIMITS.split()}},
    ),
    "golden": Keyed(
        "program_golden_test",
        {**_OF_PROGRAM, "golden": '"golden.json"'},
        {**_OF_ANOTHER, "golden": '"second.json"', "size_tolerance_percent": "3"},
    ),
    "updated": Keyed(
        "program_golden_test",
        {**_OF_PROGRAM, "golden": '"golden.json"'},
        {**_OF_ANOTHER, "path": '"second.json"'},
        shown_by="updated.update",
        set_by={"path": "golden"},
    ),
    "difference": Keyed(
        "program_diff",
        {**_OF_PROGRAM, "base": '":other_mps"'},
        {**_OF_ANOTHER, "base": '":fixed_mps"'},
    ),
    "explained": Keyed("program_explain", _OF_PROGRAM, _OF_ANOTHER),
    "inspected": Keyed("program_inspect", _OF_PROGRAM, _OF_ANOTHER),
    "kernels": Keyed(
        "app_kernels",
        {"deps": '[":library"]', "kernels": '["dsp::window.out"]', "module": '"second"'},
        {
            "deps": '[":library", ":library_again"]',
            "kernels": '["dsp::window.of"]',
            "module": '"net"',
        },
        shown_by="shows_kernels",
    ),
    "profiled": Keyed("program_profile", _OF_PROGRAM, {**_OF_ANOTHER, "runner": '"net.py"'}),
    "benchmark": Keyed(
        "program_benchmark",
        {**_OF_PROGRAM, "baseline": '":fixed_mps"', "run_under": '"net.py"', "runner": '"net.py"'},
        {
            **_OF_ANOTHER,
            "all_threads": "True",
            "baseline": '":other_mps"',
            "clock": '"cpu"',
            "item": '"images"',
            "items_per_call": "2",
            "maximum_ratio": '"1.5"',
            "method": '"forward"',
            "rounds": "3",
            "run_under": '"second.py"',
            "run_under_arguments": '["-cpu", "max"]',
            "runner": '"second.py"',
            "runs": "7",
        },
    ),
    "reported": Keyed("program_report", _OF_PROGRAM, _OF_ANOTHER),
    "index": Keyed("program_index", _ONE, {**_ANOTHER, "reports": "False"}),
    "bundle": Keyed("program_bundle", _ONE, {**_ANOTHER, "license_files": '["second.py"]'}),
    "operators": Keyed("selected_operators", _ONE, _ANOTHER),
    "licenses": Keyed("program_licenses", _ONE, _ANOTHER),
    "sboms": Keyed("program_sboms", _ONE, _ANOTHER, shown_by="shows_sboms"),
    "variants": Keyed(
        "program_variants",
        {**_ONE, "variants": '{"half": ["mps_precision=fp16"]}'},
        {**_ANOTHER, "variants": '{"half": ["mps_precision=fp32"]}'},
    ),
    "variant": Keyed(
        "program_variant",
        {"variants": '":fixed_variants"', "variant": '"half"', "program_name": '"fixed_mps"'},
        {"program_name": '"other_mps"', "variant": '"full"', "variants": '":other_variants"'},
        shown_by="shows_variant",
    ),
}


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
