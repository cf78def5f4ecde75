# SPDX-License-Identifier: Apache-2.0
"""The outputs of the rules in a nested Bazel: how to build them all, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from nested_bazel import NestedBazel

OUTPUTS: Final = (
    ".etrecord",
    ".html",
    ".json",
    ".pt2",
    ".ptd",
    ".pte",
    ".samples.safetensors",
    ".txt",
    ".zip",
)
PROGRAMS: Final = (".pt2", ".pte")
_GROUPS: Final = (
    "blobs",
    "debug",
    "etrecord",
    "ir",
    "manifest",
    "reasons",
    "report",
    "samples",
    "sbom",
    "signature",
    "sources",
    "weights",
)
# Builds each output of each rule, also those on demand.
EVERY_OUTPUT: Final = (
    "--aspects=//rules:sbom.bzl%sbom",
    "--output_groups=" + ",".join(f"+{group}" for group in _GROUPS),
)


def digests(bazel: NestedBazel, folder: str = "", kinds: tuple[str, ...] = OUTPUTS) -> dict[str, str]:
    """Returns the SHA-256 of each output of the rules that has been built.

    Args:
        bazel: the Bazel of a workspace.
        folder: a directory below bazel-bin.
        kinds: the ends of the files' names.

    Returns:
        Path below bazel-bin -> digest.
    """
    root = bazel.workspace / "bazel-bin"
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((root / folder).rglob("*"))
        if path.name.endswith(kinds) and ".runfiles" not in str(path) and path.is_file()
    }


def summary(found: Mapping[str, str], kinds: tuple[str, ...] = OUTPUTS) -> str:
    """Returns the number of the outputs of some kinds, and the first digits of one digest of them all."""
    chosen = {path: digest for path, digest in found.items() if path.endswith(kinds)}
    return f"{len(chosen)} `{hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:12]}`"


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Returns the paths of outputs that differ, or that only one of two builds has."""
    return [path for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)]
