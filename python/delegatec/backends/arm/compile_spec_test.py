# SPDX-License-Identifier: Apache-2.0
"""The builder of settings with the names of the Arm design."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from delegatec.backends.arm.compile_spec import (
    ArmCompileSpecBuilder,
    ethosu_compile_spec,
    tosa_compile_spec,
    vgf_compile_spec,
)
from delegatec.diagnostics import DelegatecError


def test_letters_of_any_case_and_defaults() -> None:
    spec = ethosu_compile_spec("Ethos-U55-128")
    assert (spec.backend, dict(spec.options)) == ("ethos_u", {"accelerator": "ethos-u55-128"})
    assert [(each.key, each.value) for each in spec.compile_specs] == [("target", b"ethos-u55-128")]
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.backend = "tosa"  # type: ignore[misc]
    with pytest.raises(TypeError):
        spec.options["stage"] = "tosa"  # type: ignore[index]


def test_every_setting() -> None:
    builder = ArmCompileSpecBuilder().ethosu_compile_spec(
        "ethos-u85-256", "Ethos_U85_SYS_DRAM_High", "Shared_Sram", ["--optimise", "Size"]
    )
    spec = builder.set_quantize_io(False).set_permute_memory_format(False).build()
    assert dict(spec.options) == {
        "accelerator": "ethos-u85-256",
        "extra_flags": "--optimise Size",
        "memory_mode": "Shared_Sram",
        "system_config": "Ethos_U85_SYS_DRAM_High",
    }
    assert dict(spec.layout) == {}
    assert (
        ethosu_compile_spec("ethos-u85-256", "Ethos_U85_SYS_DRAM_High", "Shared_Sram", "--optimise Size")
        == spec
    )
    assert (vgf_compile_spec().backend, dict(vgf_compile_spec().options)) == ("vgf", {})
    assert dict(vgf_compile_spec("TOSA-1.0+FP").options) == {"specification": "TOSA-1.0+FP"}
    assert dict(tosa_compile_spec("tosa-1.0+int+INT16").options) == {"specification": "tosa-1.0+int+INT16"}


def test_the_layout_of_a_program() -> None:
    builder = ArmCompileSpecBuilder().tosa_compile_spec("TOSA-1.0+FP")
    spec = builder.set_permute_memory_format().build()
    assert dict(spec.layout) == {"channels_last_inputs": True, "channels_last_outputs": True}
    assert dict(builder.set_permute_memory_format(False).build().layout) == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ethosu_compile_spec("ethos-u75-128"), "cannot be 'ethos-u75-128'"),
        (lambda: ethosu_compile_spec(""), "cannot be ''"),
        (lambda: ethosu_compile_spec("ethos-u55-128", memory_mode="x"), "'x' is not a memory mode"),
        (lambda: vgf_compile_spec("TOSA-0.80+MI"), "write TOSA-1.0+INT+FP for graphs of 1.0"),
        (lambda: tosa_compile_spec("TOSA-1.0"), "it has no profile"),
        (lambda: ArmCompileSpecBuilder().build(), "with no device"),
        (lambda: ArmCompileSpecBuilder().set_quantize_io(True), "with quantized inputs"),
        (lambda: ArmCompileSpecBuilder().dump_intermediate_artifacts_to("x"), "with a directory"),
        (
            lambda: (
                ArmCompileSpecBuilder().ethosu_compile_spec("ethos-u55-32").tosa_compile_spec("TOSA-1.0+FP")
            ),
            "with two devices",
        ),
    ],
)
def test_invalid_settings(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(DelegatecError) as raised:
        call()
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "DC402"
    assert message in diagnostic.message


@pytest.mark.parametrize(
    "arguments", [{"config": None}, {"config_ini": 1}, {"extra_flags": 5}, {"extra_flags": [5]}]
)
def test_wrong_types(arguments: dict[str, Any]) -> None:
    with pytest.raises(DelegatecError) as raised:
        ethosu_compile_spec(**{"config": "ethos-u55-128", **arguments})
    assert [each.code for each in raised.value.diagnostics] == ["DC415"]
