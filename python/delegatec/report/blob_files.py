# SPDX-License-Identifier: Apache-2.0
"""The blob of a delegate as files: its bytes, its text and its graph."""

from __future__ import annotations

import json
from collections.abc import Iterator

from delegatec.delegation import Backend, BlobLabels, blob_graph_json, plugins


def blob_files(
    stem: str, blob: memoryview, backend: Backend | None, labels: BlobLabels | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yields the name and the contents of each file.

    Args:
        stem: names of the files without suffix.
        blob: the blob.
        backend: that of the delegate, if it is known; otherwise there is no text.
        labels: names of weights, modules and lines.

    Raises:
        DelegatecError: the backend cannot read the blob; DC410 for a faulty plug-in.
    """
    yield stem + (".blob" if backend is None else backend.blob_suffix), bytes(blob)
    if backend is None:
        return
    text = plugins.description(backend, blob, labels)
    if text:
        yield f"{stem}.txt", text.encode()
    graph = plugins.call(Backend.graph, backend, blob)
    if graph:
        yield f"{stem}.json", (json.dumps(blob_graph_json(graph, labels), indent=1) + "\n").encode()
