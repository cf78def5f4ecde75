# SPDX-License-Identifier: Apache-2.0
"""Targets of the rules that make a program from a model or from another program: export, quantize, lower."""

from __future__ import annotations

from typing import Final

from keyed import METRIC, Keyed

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
    "mlx": {**_HALF, "kv_cache": '"runtime"', "runtime": '"1.4.1"'},
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

PROGRAMS: Final[dict[str, Keyed]] = {
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
            **METRIC,
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
            **METRIC,
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
}
