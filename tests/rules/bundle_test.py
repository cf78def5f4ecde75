# SPDX-License-Identifier: Apache-2.0
"""`program_bundle`: the directory has what its index lists."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from runfiles import Runfiles

_MODELS = "tests/rules/models"


def test_bundle_has_programs_weights_and_licenses() -> None:
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(f"rules_delegate/{_MODELS}/bundle")
    assert location is not None
    folder = Path(location)
    index = json.loads((folder / "index.json").read_text())
    # Below a test and a file group, too; two programs share one file of weights.
    assert {each["file"]: (each["delegates"], each["weights"]) for each in index["programs"]} == {
        f"{_MODELS}/mlp_mps.pte": (["MPSBackend"], None),
        f"{_MODELS}/mlp_mps_external.pte": (["MPSBackend"], f"{_MODELS}/mlp.ptd"),
        f"{_MODELS}/mlp_portable_external.pte": ([], f"{_MODELS}/mlp.ptd"),
        f"{_MODELS}/mlp_vulkan.pte": (["VulkanBackend"], None),
    }
    assert [each["file"] for each in index["weights"]] == [f"{_MODELS}/mlp.ptd"]
    assert index["licenses"] == ["licenses/LICENSE"]
    assert "Apache License" in (folder / "licenses" / "LICENSE").read_text()
    for each in [*index["programs"], *index["weights"]]:
        content = (folder / each["file"]).read_bytes()
        assert len(content) == each["bytes"] > 0
        assert hashlib.sha256(content).hexdigest() == each["sha256"]
    listed = {each["file"] for each in [*index["programs"], *index["weights"]]}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == listed | {"index.json", "licenses/LICENSE"}
