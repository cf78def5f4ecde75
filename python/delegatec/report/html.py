# SPDX-License-Identifier: Apache-2.0
"""The report: a self-contained HTML file rendered from the manifest and the debug map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from delegatec.delegation import BlobGraph, BlobLabels
from delegatec.report.blob_labels import delegate_labels
from delegatec.report.blob_picture import BOXES_SHOWN as BOXES_OF_A_GRAPH
from delegatec.report.blob_picture import BlobPicture, draw_blob
from delegatec.report.debug_text import debug_rows
from delegatec.report.environment import template
from delegatec.report.explanation import explanations_of
from delegatec.report.manifest import Manifest
from delegatec.report.memory_picture import draw_memory
from delegatec.report.needs import links_text
from delegatec.report.partition_picture import draw_partition
from delegatec.report.reasons import reasons_of
from delegatec.report.search_picture import draw_search

# Number of rows to show of a method's debug map.
LINES_SHOWN: Final = 1000
# Number of boxes for the drawings of all delegates, checked before each drawing.
BOXES_SHOWN: Final = 4000


def render_html(
    manifest: Manifest,
    debug_map: Mapping[str, Any] | None = None,
    graphs: Mapping[str, Mapping[str, BlobGraph]] | None = None,
) -> str:
    """Renders the report as an HTML document.

    Args:
        manifest: the program's manifest.
        debug_map: the program's debug map, for the origins of instructions and delegates' operations.
        graphs: method -> name of a delegate -> the graph in its blob, to draw.

    Returns:
        The whole document.
    """
    pictures = {method.name: draw_partition(method) for method in manifest.methods if method.graph}
    return template("report.html.jinja").render(
        manifest=manifest,
        totals=_totals(manifest),
        explanations=explanations_of(manifest),
        links=links_text(manifest.runtime),
        reasons={method.name: reasons_of(method) for method in manifest.methods},
        pictures=pictures,
        lines={
            name: debug_rows(method) for name, method in (debug_map or {"methods": {}})["methods"].items()
        },
        lines_shown=LINES_SHOWN,
        blobs=_blobs(manifest, debug_map, graphs or {}),
        graphs={name: len(of_method) for name, of_method in (graphs or {}).items()},
        search=draw_search(manifest.search) if manifest.search else None,
        memories={method.name: draw_memory(method) for method in manifest.methods},
        weights=sorted(manifest.weights, key=lambda weight: (-weight.bytes, weight.names)),
        parts=_parts(manifest),
    )


def _blobs(
    manifest: Manifest, debug_map: Mapping[str, Any] | None, graphs: Mapping[str, Mapping[str, BlobGraph]]
) -> dict[str, list[BlobPicture | None]]:
    """Returns method -> the drawing of each delegate's graph, if known and within the limit."""
    labels = delegate_labels(debug_map) if debug_map is not None else {}
    pictures: dict[str, list[BlobPicture | None]] = {method.name: [] for method in manifest.methods}
    budget = BOXES_SHOWN
    for method in manifest.methods:
        for delegate in method.delegates:
            graph = graphs.get(method.name, {}).get(delegate.name)
            if graph is None or budget <= 0:
                pictures[method.name].append(None)
                continue
            known = labels.get((method.name, delegate.name), BlobLabels())
            picture = draw_blob(graph, known, min(budget, BOXES_OF_A_GRAPH))
            budget -= picture.boxes
            pictures[method.name].append(picture)
    return pictures


def _totals(manifest: Manifest) -> dict[str, int]:
    methods = manifest.methods
    return {
        "nodes": sum(method.nodes for method in methods),
        "delegated": sum(method.nodes_delegated for method in methods),
        "delegates": sum(len(method.delegates) for method in methods),
        "delegate_bytes": sum(delegate.bytes for method in methods for delegate in method.delegates),
        "instructions": sum(method.instructions for method in methods),
        "kernels": len({kernel.name for method in methods for kernel in method.kernels}),
        "weight_bytes": sum(weight.bytes for weight in manifest.weights),
        "shared_bytes": sum(weight.bytes * (len(weight.names) - 1) for weight in manifest.weights),
        "arena": max((method.memory.arena_bytes for method in methods), default=0),
        "bound": max((method.memory.lower_bound_bytes for method in methods), default=0),
    }


def _parts(manifest: Manifest) -> list[tuple[str, int]]:
    """Returns kind of part -> bytes, including padding."""
    sizes: dict[str, int] = {}
    for part in manifest.file.parts:
        sizes[part.kind] = sizes.get(part.kind, 0) + part.bytes
    padding = manifest.file.bytes - sum(sizes.values())
    return [*sizes.items(), ("padding", padding)] if padding else list(sizes.items())
