# SPDX-License-Identifier: Apache-2.0
"""The manifest: a JSON description of a program for tools; these classes and `methods.py` are its schema.

It is deterministic: no times, no absolute paths. All sizes are in bytes. Checksums are CRC-32, in 8
hexadecimal digits; `delegatec inspect --format=json` has SHA-256 hashes of the same ranges. Digests of the
inputs of the build are SHA-256.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Final

from delegatec.diagnostics.documents import json_document
from delegatec.report.decoding import Size, decoded
from delegatec.report.method_checks import problems_of
from delegatec.report.methods import ConstantMethod, MethodInfo, Weight
from delegatec.report.needs import RuntimeNeeds
from delegatec.report.provenance import InputFile, Wheel
from delegatec.samples.accuracy import OutputAccuracy
from delegatec.samples.search import Search

# Incremented when a field changes its meaning or is removed, not when fields are added.
SCHEMA_VERSION: Final = 2


@dataclass(frozen=True)
class FilePart:
    """A byte range of the file: the "program" itself, or a segment ("constants", "delegate" and so on)."""

    kind: str
    offset: Size
    bytes: Size
    crc32: str


@dataclass(frozen=True)
class FileInfo:
    """The file. Gaps between its parts are padding."""

    bytes: Size
    crc32: str
    parts: tuple[FilePart, ...]


@dataclass(frozen=True)
class Manifest:
    """The manifest of a program.

    Attributes:
        schema_version: `SCHEMA_VERSION`.
        compiler: name and version of the compiler.
        label: the target that was built.
        backend: name of the requested backend, or of several separated by commas, or "portable".
        options: values of all options; named "BACKEND.OPTION" if there are several backends.
        methods: the methods that compute something, in file order.
        constant_methods: the other methods.
        weights: weights read by the runtime's kernels, in file order; those of delegates are listed there.
        file: size and checksums.
        flags: those of `delegatec lower` that control delegation and layout, as given.
        inputs: the files that the program was built from.
        wheels: the wheels that the compiler could import, by name.
        runtime: what an app links to run it.
        accuracy: the error of each output of a quantized model against the model in float.
        search: how layers in float of a quantized model were chosen; None without a search.
    """

    schema_version: int
    compiler: str
    label: str
    backend: str
    options: dict[str, str | tuple[str, ...]]
    methods: tuple[MethodInfo, ...]
    constant_methods: tuple[ConstantMethod, ...]
    weights: tuple[Weight, ...]
    file: FileInfo
    flags: tuple[str, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    runtime: RuntimeNeeds = field(default_factory=RuntimeNeeds)
    accuracy: tuple[OutputAccuracy, ...] = ()
    search: Search | None = None


def to_json(manifest: Manifest) -> str:
    """Returns the manifest as JSON, indented by two spaces, with a final newline."""
    return json_document(dataclasses.asdict(manifest), allow_nan=False)


def from_json(text: str) -> Manifest:
    """Reads the result of `to_json`; raises ValueError for other texts."""
    manifest = decoded(Manifest, json.loads(text))
    assert isinstance(manifest, Manifest)
    for problem in problems_of(manifest.methods):
        raise ValueError(problem)
    if manifest.search is not None and not manifest.search.has_one_choice:
        raise ValueError("search does not have one chosen point")
    return manifest
