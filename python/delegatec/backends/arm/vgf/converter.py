# SPDX-License-Identifier: Apache-2.0
"""Arm's model converter, which compiles a TOSA graph to a VGF file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from delegatec.backends.common.tools import Tool
from delegatec.delegation import Part

# Later versions need glibc 2.38.
CONVERTER: Final = Tool("Arm's model converter", "model_converter", "ai-ml-sdk-model-converter==0.9.0")
_PROGRAM: Final = "binaries/bin/model-converter"
_CHUNK: Final = 1 << 22


def to_vgf(graph: Iterable[Part]) -> bytes:
    """Returns the VGF file of a TOSA graph.

    Args:
        graph: the parts of its FlatBuffer.

    Raises:
        DelegatecError: DC430 without the converter, DC431 if it rejects the graph.
    """
    program = CONVERTER.directory() / _PROGRAM
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, result = folder / "graph.tosa", folder / "graph.vgf"
        with source.open("wb") as file:
            for part in graph:
                for start in range(0, len(part), _CHUNK):
                    file.write(part[start : start + _CHUNK])
        options = ["--input", source.name, "--output", result.name, "--require-static-shape"]
        finished = CONVERTER.run([program, *options], folder)
        if finished.status or not result.exists():
            raise CONVERTER.failure("rejects the graph of a delegate", finished.text)
        return result.read_bytes()
