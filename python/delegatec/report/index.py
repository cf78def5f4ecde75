# SPDX-License-Identifier: Apache-2.0
"""One page over many programs: a row each, with its sizes and delegation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.diagnostics.documents import json_document
from delegatec.report.environment import template
from delegatec.report.estimates import figures_of
from delegatec.report.manifest import Manifest

# Incremented when a field changes its meaning or is removed.
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True)
class Entry:
    """A program.

    Attributes:
        label: its target.
        backend: names of the requested backends, or "portable".
        options: those that were set, as text.
        methods: names of its methods.
        nodes: number of operators before delegation.
        nodes_delegated: number of operators in delegates.
        figures: sizes in bytes, numbers of delegates, and estimates, by the names of budgets.
        report: path of its report, relative to the page; empty if there is none.
    """

    label: str
    backend: str
    options: str
    methods: tuple[str, ...]
    nodes: int
    nodes_delegated: int
    figures: dict[str, int]
    report: str

    @property
    def package(self) -> str:
        """The package of its target."""
        return self.label.rpartition(":")[0]

    @property
    def name(self) -> str:
        """The name of its target in the package."""
        return self.label.rpartition(":")[2]


def entry_of(manifest: Manifest, report: str = "") -> Entry:
    """Returns the row of a program.

    Args:
        manifest: of the program.
        report: path of its report, relative to the page.
    """
    return Entry(
        label=manifest.label,
        backend=manifest.backend,
        options=", ".join(f"{name}={value}" for name, value in manifest.options.items() if value),
        methods=tuple(method.name for method in manifest.methods),
        nodes=sum(method.nodes for method in manifest.methods),
        nodes_delegated=sum(method.nodes_delegated for method in manifest.methods),
        figures=figures_of(manifest),
        report=report,
    )


def index_json(entries: Sequence[Entry]) -> str:
    """Returns the index as JSON, sorted by label."""
    rows = [dataclasses.asdict(each) for each in _sorted(entries)]
    document = {"schema_version": SCHEMA_VERSION, "programs": rows}
    return json_document(document)


def index_html(entries: Sequence[Entry], title: str = "") -> str:
    """Returns the index as an HTML document.

    Args:
        entries: the programs.
        title: the target of the index.
    """
    rows = _sorted(entries)
    packages = {each.package: [other for other in rows if other.package == each.package] for each in rows}
    return template("index.html.jinja").render(
        title=title or "Programs",
        entries=rows,
        packages=packages,
        file_bytes=sum(each.figures["file_bytes"] for each in rows),
        largest={
            package: max(each.figures["file_bytes"] for each in group) for package, group in packages.items()
        },
        nodes=sum(each.nodes for each in rows if each.backend != "portable"),
        delegated=sum(each.nodes_delegated for each in rows if each.backend != "portable"),
        full=sum(each.nodes == each.nodes_delegated for each in rows),
        estimated=any("cycles" in each.figures for each in rows),
    )


def _sorted(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda each: (each.package, each.name))
