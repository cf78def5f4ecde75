# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sbom
from cyclonedx.model.component import Component, ComponentType

METADATA = "Metadata-Version: 2.4\nName: layers\nVersion: 1.0\nLicense-Expression: MIT\n"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    files = {
        "net.pte": "program",
        "net.pt2": "model",
        "net.py": "source",
        "net.safetensors": "weights",
        "net.manifest.json": '{"compiler": "delegatec 0.1.0"}',
        "site/layers-1.0.dist-info/METADATA": METADATA,
        "site/wheels.lock.txt": f"layers==1.0 --hash=sha256:{'1' * 64}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kinds = {"program": "net.pte", "model": "net.pt2", "source": "net.py", "data": "net.safetensors"}
    return [
        "--label=//models:net",
        f"--manifest={tmp_path}/net.manifest.json",
        f"--output={tmp_path}/net.cdx.json",
        f"--site={tmp_path}/site",
        *(f"--{kind}=models/{name}={tmp_path}/{name}" for kind, name in kinds.items()),
    ]


def _written(arguments: list[str]) -> str:
    (output,) = (each.partition("=")[2] for each in arguments if each.startswith("--output="))
    return Path(output).read_text()


def test_components(arguments: list[str], tmp_path: Path) -> None:
    assert sbom.main(arguments) == 0
    document = json.loads(_written(arguments))
    components: dict[str, Any] = {each["name"]: each for each in document["components"]}
    files = ("net.pt2", "net.py", "net.safetensors")
    assert components.keys() == {"delegatec", "layers", *(f"models/{name}" for name in files)}
    for name in files:
        digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert components[f"models/{name}"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert components["layers"] | {"bom-ref": ""} == {
        "bom-ref": "",
        "hashes": [{"alg": "SHA-256", "content": "1" * 64}],
        "licenses": [{"license": {"id": "MIT"}}],
        "name": "layers",
        "purl": "pkg:pypi/layers@1.0",
        "type": "library",
        "version": "1.0",
    }
    assert document["metadata"].keys() == {"component"}
    assert document["metadata"]["component"]["name"] == "models/net.pte"
    (depends,) = (each["dependsOn"] for each in document["dependencies"] if "dependsOn" in each)
    assert len(depends) == len(components)
    assert str(tmp_path) not in _written(arguments)


def test_the_license_of_a_model(arguments: list[str]) -> None:
    assert sbom.main([*arguments, "--license=models/net.pt2=MIT OR Apache-2.0"]) == 0
    components = {each["name"]: each for each in json.loads(_written(arguments))["components"]}
    assert components["models/net.pt2"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert "licenses" not in components["models/net.py"]


def test_the_same_bytes_in_another_process(arguments: list[str]) -> None:
    assert sbom.main(arguments) == 0
    first = _written(arguments)
    environment = {"PYTHONHASHSEED": "7", "TZ": "XXX-13", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = [sys.executable, sbom.__file__, *arguments]
    subprocess.run(process, env=os.environ | environment, check=True)
    assert _written(arguments) == first


def test_the_serial_number_depends_on_the_contents(arguments: list[str], tmp_path: Path) -> None:
    assert sbom.main(arguments) == 0
    first = json.loads(_written(arguments))["serialNumber"]
    (tmp_path / "net.py").write_text("another source")
    assert sbom.main(arguments) == 0
    assert json.loads(_written(arguments))["serialNumber"] != first


def test_an_invalid_document_is_rejected() -> None:
    program = Component(type=ComponentType.MACHINE_LEARNING_MODEL, name="net", bom_ref="net")
    wrong = Component(type=ComponentType.LIBRARY, name="net", mime_type="not a type")
    with pytest.raises(ValueError, match=r"does not conform to CycloneDX 1\.6"):
        sbom.document(program, [wrong])
