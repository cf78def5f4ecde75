# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a quantized program for an NPU, which has all kinds of parts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

FOLDER = Path("examples/digits")


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / "digits_int8_u55.cdx.json").read_text())
    return document


def _digests(components: list[dict[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["hashes"][0]["content"] for each in components if "hashes" in each}


def test_files() -> None:
    document = _document()
    digests = _digests(document["components"])
    files = {name for name in digests if "/" in name}
    assert files == {
        f"examples/digits/{name}"
        for name in (
            "calibration.safetensors",
            "digits.pt2",
            "digits.py",
            "digits.safetensors",
            "digits_int8.pt2",
            "network.py",
        )
    }
    for name in ("calibration.safetensors", "digits.safetensors"):
        assert digests[f"examples/digits/{name}"] == hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
    program = (FOLDER / "digits_int8_u55.pte").read_bytes()
    assert _digests([document["metadata"]["component"]]) == {
        "examples/digits/digits_int8_u55.pte": hashlib.sha256(program).hexdigest()
    }


def test_wheels() -> None:
    """Those of the compiler, of the quantization, and the program that the backend runs."""
    names = {each["name"] for each in _document()["components"] if each["type"] == "library"}
    assert {"torch", "flatbuffers", "torchao", "ethos-u-vela"} <= names
    assert names.isdisjoint({"cyclonedx-python-lib", "executorch", "pytest"})
