# SPDX-License-Identifier: Apache-2.0
"""The list of licenses, from two bills of materials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import licenses


def _component(kind: str, name: str, version: str = "", *choices: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "name": name, "version": version, "licenses": [*choices]}


def _document(program: str, *components: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"component": {"name": program}}, "components": [*components]}


_TORCH = _component("library", "torch", "2.13.0", {"license": {"id": "BSD-3-Clause"}})
_OLD = _component("library", "layers", "1.0", {"license": {"name": "see LICENSE"}})
_NEW = _component("library", "layers", "1.1", {"expression": "MIT OR Apache-2.0"})
_COMPILER = _component("application", "delegatec", "0.1.0", {"license": {"id": "Apache-2.0"}})
_NET = _component("machine-learning-model", "models/net.pt2")
_FILES = (_component("file", "models/net.py"), _component("data", "models/net.safetensors"))


def _written(folder: Path, *documents: dict[str, Any]) -> tuple[dict[str, Any], str]:
    arguments = [f"--json={folder}/all.json", f"--txt={folder}/all.txt"]
    for index, document in enumerate(documents):
        (folder / f"{index}.json").write_text(json.dumps(document))
        arguments.append(f"--document={folder}/{index}.json")
    (folder / "parameters").write_text("\n".join(arguments))
    assert licenses.main([f"@{folder}/parameters"]) == 0
    return json.loads((folder / "all.json").read_text()), (folder / "all.txt").read_text()


def test_parts_are_listed_once_with_their_programs(tmp_path: Path) -> None:
    listed, _ = _written(
        tmp_path,
        _document("models/a.pte", _TORCH, _OLD, _COMPILER, _NET, *_FILES),
        _document("models/b.pte", _NEW, _TORCH, _COMPILER),
    )
    assert [
        (each["name"], each["version"], each["licenses"], each["programs"]) for each in listed["wheels"]
    ] == [
        ("layers", "1.0", ["see LICENSE"], ["models/a.pte"]),
        ("layers", "1.1", ["MIT OR Apache-2.0"], ["models/b.pte"]),
        ("torch", "2.13.0", ["BSD-3-Clause"], ["models/a.pte", "models/b.pte"]),
    ]
    assert [each["name"] for each in listed["models"]] == ["models/net.pt2"]
    assert [each["programs"] for each in listed["tools"]] == [["models/a.pte", "models/b.pte"]]


def test_the_text_names_what_has_no_license(tmp_path: Path) -> None:
    _, text = _written(tmp_path, _document("models/a.pte", _TORCH, _COMPILER, _NET, *_FILES))
    assert text == (
        "Models\n"
        "  models/net.pt2: no license declared\n"
        "\n"
        "Wheels of the models' code and the compiler\n"
        "  torch 2.13.0: BSD-3-Clause\n"
        "\n"
        "Compiler\n"
        "  delegatec 0.1.0: Apache-2.0\n"
    )
