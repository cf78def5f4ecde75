# SPDX-License-Identifier: Apache-2.0
"""`program_bundle`: the directory has the files that its index lists, and its `selected_operators`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from runfiles import Runfiles

_MODELS = "tests/rules/models"


def _path(name: str) -> Path:
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(f"rules_delegate/{_MODELS}/{name}")
    assert location is not None
    return Path(location)


def test_bundle_has_programs_weights_and_licenses() -> None:
    folder = _path("bundle")
    index = json.loads((folder / "index.json").read_text())
    # Below a test and a file group, too; two programs share one file of weights.
    assert {each["file"]: (each["delegates"], each["weights"]) for each in index["programs"]} == {
        f"{_MODELS}/mlp_mps.pte": (["MPSBackend"], None),
        f"{_MODELS}/mlp_mps_external.pte": (["MPSBackend"], f"{_MODELS}/mlp.ptd"),
        f"{_MODELS}/mlp_portable_external.pte": ([], f"{_MODELS}/mlp.ptd"),
        f"{_MODELS}/mlp_vulkan.pte": (["VulkanBackend"], None),
    }
    assert [each["file"] for each in index["weights"]] == [f"{_MODELS}/mlp.ptd"]
    # Of the bundle, and of the model.
    licenses = {"licenses/LICENSE", f"licenses/{_MODELS}/mlp_notice.txt"}
    assert {*index["licenses"]} == licenses
    assert "Apache License" in (folder / "licenses" / "LICENSE").read_text()
    for each in [*index["programs"], *index["weights"]]:
        content = (folder / each["file"]).read_bytes()
        assert len(content) == each["bytes"] > 0
        assert hashlib.sha256(content).hexdigest() == each["sha256"]
    listed = {each["file"] for each in [*index["programs"], *index["weights"]]}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == listed | licenses | {"index.json"}


def test_operators_are_those_of_all_programs() -> None:
    document = json.loads(_path("linked.runtime.json").read_text())
    label = f"//{_MODELS}:mlp_"
    assert document["backends"] == {
        "MPSBackend": [f"{label}mps", f"{label}mps_external"],
        "VulkanBackend": [f"{label}vulkan"],
    }
    assert document["kernels"]
    assert {name for users in document["kernels"].values() for name in users} == {f"{label}portable_external"}
    text = _path("linked.selected_operators.yaml").read_text()
    assert all(f'\n  "{kernel}":\n' in text for kernel in document["kernels"])
    for suffix in (".runtime.json", ".selected_operators.yaml"):
        assert _path(f"bundle{suffix}").read_text() == _path(f"linked{suffix}").read_text()
