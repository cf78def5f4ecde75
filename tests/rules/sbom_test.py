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


def test_licenses() -> None:
    """Of the program below a test: of its models, of wheels, and of the compiler."""
    folder = Path("tests/rules")
    listed = json.loads((folder / "licenses.json").read_text())
    assert {each["name"]: each["licenses"] for each in listed["models"]} == {
        f"examples/digits/{name}": ["Apache-2.0"] for name in ("digits.pt2", "digits_int8.pt2")
    }
    wheels = {each["name"]: each for each in listed["wheels"]}
    assert wheels["flatbuffers"]["licenses"] == ["Apache 2.0"]  # as its authors write it
    assert {"torch", "torchao", "ethos-u-vela"} <= wheels.keys()
    for each in (*listed["models"], *listed["wheels"], *listed["tools"]):
        assert each["programs"] == ["examples/digits/digits_int8_u55.pte"]
    lines = (folder / "licenses.txt").read_text().splitlines()
    assert "  examples/digits/digits.pt2: Apache-2.0" in lines
    assert next(line for line in lines if line.startswith("  flatbuffers ")).endswith(": Apache 2.0")
