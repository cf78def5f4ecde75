# SPDX-License-Identifier: Apache-2.0
"""Files of devices: what they mean, and each mistake in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from delegatec.backends.vulkan.backend import VULKAN
from delegatec.backends.vulkan.compile_spec import Settings, Storage, Textures
from delegatec.backends.vulkan.devices.profile import SIZES, Device, builtin_devices
from delegatec.backends.vulkan.memory.representation import Limits
from delegatec.backends.vulkan.testing import compile_module, graph_of
from delegatec.backends.vulkan.testing.grid import floats
from delegatec.diagnostics import DelegatecError

FAULT = {"size": "product.rows", "from": 8, "effect": "rows are wrong"}


def file_of(folder: Path, fields: dict[str, Any]) -> str:
    """Writes the file of a device, and returns its path."""
    path = folder / "device.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", builtin_devices())
def test_builtin_devices(name: str) -> None:
    device = Device.parse(name)
    assert device.name == name
    assert Device.parse(str(device)) == device
    assert device.faults or device.textures, "it says nothing"


def test_any_device_has_no_text() -> None:
    assert (str(Device()), Device.parse("")) == ("", Device())
    assert VULKAN.compile_specs({}) == []


def test_a_team_extends_a_device(tmp_path: Path) -> None:
    fields = {"extends": "adreno-840", "name": "our-phone", "storage": "buffer", "faults": [FAULT]}
    device = Device.parse(file_of(tmp_path, fields))
    base = Device.parse("adreno-840")
    assert (device.name, device.storage) == ("our-phone", "buffer")
    assert device.faults[:-1] == base.faults
    assert (device.faults[-1].size, device.faults[-1].first, device.faults[-1].last) == (
        "product.rows",
        8,
        None,
    )
    assert Device.parse(str(device)) == device


def test_bytes_depend_on_the_contents_of_the_file_only(tmp_path: Path) -> None:
    fields = {"name": "phone", "float16": False, "textures": [64, 64, 64]}
    first = VULKAN.compile_specs({"device": file_of(tmp_path, fields)})
    other = tmp_path / "other"
    other.mkdir()
    reversed_fields = dict(reversed([*fields.items()]))
    assert VULKAN.compile_specs({"device": file_of(other, reversed_fields)}) == first
    assert str(tmp_path) not in bytes(first[0].value).decode()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "name is missing; expected a text"),
        ({"name": 5}, "name is 5; expected a text"),
        ({"name": "a", "storage": "bufer"}, 'storage is "bufer"; expected texture or buffer'),
        ({"name": "a", "float16": 1}, "float16 is 1; expected true or false"),
        ({"name": "a", "textures": [64, 64]}, "textures is [64, 64]; expected three sizes in texels"),
        ({"name": "a", "textures": [64, 0, 64]}, "textures is [64, 0, 64]; expected three sizes in texels"),
        ({"name": "a", "buffer_bytes": True}, "buffer_bytes is true; expected a number of bytes"),
        ({"name": "a", "texture": [64, 64, 64]}, "texture is not a field; expected extends, name"),
        ({"name": "a", "extends": "adreno"}, 'extends is "adreno"; expected one of adreno-840'),
        ({"name": "a", "faults": {}}, "faults is {}; expected a list of objects"),
        (
            {"name": "a", "faults": [FAULT, FAULT | {"size": "rows"}]},
            'faults[1].size is "rows"; expected convolution.',
        ),
        (
            {"name": "a", "faults": [FAULT | {"size": ["product.rows"]}]},
            'faults[0].size is ["product.rows"]; expected convolution.',
        ),
        ({"name": "a", "faults": [FAULT | {"from": 0}]}, "faults[0].from is 0; expected a size, 1 or more"),
        ({"name": "a", "faults": [FAULT | {"to": 7}]}, "faults[0].to is 7; expected a size, 8 or more"),
        ({"name": "a", "faults": [{"size": "product.rows", "from": 8}]}, "faults[0].effect is missing"),
        (
            {"name": "a", "faults": [FAULT | {"until": 9}]},
            "faults[0].until is not a field; expected size, from",
        ),
    ],
)
def test_mistakes_name_file_and_field(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    path = file_of(tmp_path, fields)
    with pytest.raises(DelegatecError) as caught:
        VULKAN.compile_specs({"device": path})
    (found,) = caught.value.diagnostics
    assert found.code == "DC402"
    assert f"{path}: {problem}" in found.message


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"storage": "bufer", "faults": [FAULT | {"size": "rows", "from": 0}]})
    with pytest.raises(ValueError, match="name is missing") as caught:
        Device.parse(path)
    assert all(text in str(caught.value) for text in ("storage is", "faults[0].size is", "faults[0].from is"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "adreno-841",
            "no device is named 'adreno-841'; expected adreno-840, powervr-dxt-48-1536, or the path",
        ),
        ("missing.json", "'missing.json' cannot be read: No such file or directory"),
        ("{", "is not JSON"),
    ],
)
def test_unknown_devices(text: str, problem: str) -> None:
    with pytest.raises(DelegatecError, match="DC402") as caught:
        VULKAN.compile_specs({"device": text})
    assert problem in caught.value.diagnostics[0].message


def test_other_contents(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    for contents, problem in (
        (b"[]", "is list in JSON"),
        (b"\xff", "it is not UTF-8"),
        (b"{,}", "is not JSON"),
        (b"[" * 10_000, "is not JSON"),
    ):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=problem):
            Device.parse(str(path))


def test_precision_of_a_device_without_float16(tmp_path: Path) -> None:
    options = {"device": file_of(tmp_path, {"name": "old", "float16": False}), "precision": "fp16"}
    with pytest.raises(DelegatecError, match="'precision' of VulkanBackend cannot be 'fp16' for old"):
        VULKAN.compile_specs(options)
    assert VULKAN.compile_specs({**options, "precision": "fp32"})


def test_limits_and_storage() -> None:
    assert Settings(device=Device("a", textures=(4096, 512, 4096))).limits == Limits(4096, 512, 2048)
    small = Settings(device=Device("a", textures=(4096, 512, 64)), textures=Textures.DESKTOP)
    assert small.limits == Limits(2048, 512, 64)
    assert Settings(device=Device("a", storage="buffer")).preferred_storage is Storage.BUFFER
    assert Settings(
        Settings().precision, Storage.BUFFER, device=Device("a", storage="texture")
    ).preferred_storage is (Storage.BUFFER)


def test_storage_of_the_device_reaches_the_blob(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"name": "a", "storage": "buffer"})
    kinds = [
        {each.content.storageType for each in graph_of(compiled).values if hasattr(each.content, "dims")}
        for compiled in (
            compile_module(nn.ReLU(), (floats(4, 8),)),
            compile_module(nn.ReLU(), (floats(4, 8),), device=path),
        )
    ]
    assert kinds[0] != kinds[1]


def test_a_tensor_beyond_the_largest_buffer(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.ReLU(), nn.Linear(8, 16, bias=False), nn.ReLU()), floats(4, 8)
    for limit, left in ((512, []), (511, ["aten.linear.default"])):
        path = file_of(tmp_path, {"name": "tiny", "buffer_bytes": limit})
        compiled = compile_module(module, (x,), device=path)
        assert [each[0] for each in compiled.left] == left
        assert all("a tensor of 512 bytes, more than 511" in each[2] for each in compiled.left)
        torch.testing.assert_close(compiled(x)[0], module(x))


def test_each_size_has_a_meaning() -> None:
    assert {each.size for each in Device.parse("adreno-840").faults} == set(SIZES)
