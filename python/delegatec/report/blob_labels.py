# SPDX-License-Identifier: Apache-2.0
"""Labels for graphs of blobs from a debug map: names, modules, lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from delegatec.delegation import BlobLabels


def blob_labels(document: Mapping[str, Any]) -> dict[tuple[str, int], BlobLabels]:
    """Returns labels for the delegates of a program.

    Args:
        document: result of `debug_map` or `parse_debug_map`.

    Returns:
        Name of a method and index of a delegate in it -> its labels.
    """
    return {
        (name, index): _labels(method, delegate)
        for name, method in document["methods"].items()
        for index, delegate in enumerate(method["delegates"])
    }


def delegate_labels(document: Mapping[str, Any]) -> dict[tuple[str, str], BlobLabels]:
    """Returns the same by name of a method and name of a delegate in it."""
    return {
        (name, str(delegate["name"])): _labels(method, delegate)
        for name, method in document["methods"].items()
        for delegate in method["delegates"]
    }


def _labels(method: Mapping[str, Any], delegate: Mapping[str, Any]) -> BlobLabels:
    return BlobLabels(
        names={int(id): str(text) for id, text in delegate.get("constants", {}).items()},
        modules=_of(method, delegate, "module"),
        lines=_of(method, delegate, "source"),
    )


def _of(method: Mapping[str, Any], delegate: Mapping[str, Any], key: str) -> dict[str, str]:
    """Returns for each operation a property of the first of its nodes that has it."""
    found = {
        identifier: _first(method["handles"].get(str(handle), {}).get(key, "") for handle in handles)
        for identifier, handles in delegate["map"].items()
    }
    return {identifier: text for identifier, text in found.items() if text}


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")
