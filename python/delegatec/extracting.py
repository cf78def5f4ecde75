# SPDX-License-Identifier: Apache-2.0
"""`delegatec.extract`: the blobs of a lowered model as files."""

from __future__ import annotations

from pathlib import Path

from delegatec.backends import builtin_backends
from delegatec.delegation import BackendRegistry
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics.arguments import check_types
from delegatec.lowering import Program
from delegatec.report.blob_files import blob_files
from delegatec.report.blob_labels import blob_labels
from delegatec.report.debug_map import debug_map


def extract(
    lowered: Program, directory: str | Path, *, registry: BackendRegistry | None = None
) -> list[Path]:
    """Writes each delegate as METHOD/INDEX.SUFFIX, its text with the model's lines, and its graph as JSON.

    Args:
        lowered: the result of `delegatec.lower`.
        directory: created if it does not exist.
        registry: the backends that describe their blobs; the built-in ones by default.

    Returns:
        The files.

    Raises:
        DelegatecError: DC415 for arguments of wrong types; DC410 for a faulty plug-in.
    """
    check_types(
        "delegatec.extract",
        {
            "lowered": (lowered, Program, "the result of delegatec.lower"),
            "directory": (directory, str | Path, "a path"),
            "registry": (registry, BackendRegistry | None, "a BackendRegistry"),
        },
    )
    backends = {each.id: each for each in (builtin_backends() if registry is None else registry)}
    labels = blob_labels(debug_map(lowered.sources, lowered.emitted))
    written = []
    for method in lowered.emitted.methods:
        for index, delegate in enumerate(method.delegates):
            blob, known = memoryview(join(delegate.blob)), labels.get((method.name, index))
            backend = backends.get(delegate.backend_id)
            for name, contents in blob_files(f"{method.name}/{index}", blob, backend, known):
                path = Path(directory, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(contents)
                written.append(path)
    return written
