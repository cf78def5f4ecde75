# SPDX-License-Identifier: Apache-2.0
"""Targets of the rules that use programs: tests, runtimes, tools of the host, reports, what apps ship."""

from __future__ import annotations

from typing import Final

from keyed import METRIC, Keyed

_ONE: Final = {"programs": '[":fixed_mps"]'}
_ANOTHER: Final = {"programs": '[":other_mps"]'}
_OF_PROGRAM: Final = {"program": '":fixed_mps"'}
_OF_ANOTHER: Final = {"program": '":other_mps"'}
_LIMITS: Final = (
    "arena_kib cycles delegates dram_kib file_kib flash_kib method_allocator_kib operators sram_kib "
    "temporary_allocator_kib undelegated weights_kib"
)
_LIBRARIES: Final = "etdump executorch kernels quantized_kernels threadpool"

USERS: Final[dict[str, Keyed]] = {
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
        {**_OF_PROGRAM, **METRIC, "dataset": '"net.safetensors"', "floor": '"0.9"'},
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
            **METRIC,
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
