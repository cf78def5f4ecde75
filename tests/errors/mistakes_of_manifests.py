# SPDX-License-Identifier: Apache-2.0
"""Mistakes in files that describe programs: manifests, records, budgets, bundles, and lists of operators."""

from __future__ import annotations

from typing import Final

from mistake import Mistake, run, usage

_BUDGET: Final = "budget --manifest=mps.manifest.json"
_BUNDLE: Final = "bundle --manifest=mps.manifest.json --uses= --zip=net.zip"
_GOLDEN: Final = "golden --label=//pkg:net --manifest=mps.manifest.json --update-command=update"

MANIFESTS: Final[tuple[Mistake, ...]] = (
    usage("limits a figure to a fraction", "an integer N", command=f"{_BUDGET} --limit=file_bytes=1.5"),
    usage("limits a figure to nothing", "FIGURE=N", command=f"{_BUDGET} --limit=file_bytes"),
    usage(
        "limits a figure twice",
        "file_bytes has several limits",
        command=f"{_BUDGET} --limit=file_bytes=1 --limit=file_bytes=2",
    ),
    usage(
        "passes a program as the manifest",
        "mps.pte was not written by this version",
        "it is a .pte program",
        command="budget --manifest=mps.pte --limit=file_bytes=1",
    ),
    usage(
        "passes a debug map as the manifest",
        "the document has no backend",
        command="index --manifest=mps.json --page=net.html",
    ),
    usage(
        "writes a report with the debug map of another program",
        "--debug is of another program",
        command="report --manifest=mps.manifest.json --debug=mps.json --pte=good.pte --report=net.html",
    ),
    run(
        "leaves a merge conflict in a record",
        "DC513",
        "line 1 column 1",
        "resolve a merge conflict",
        command=f"{_GOLDEN} --golden=record.json",
        files={"record.json": "<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> branch\n"},
    ),
    run(
        "commits the manifest as the record",
        "DC513",
        "as a manifest has",
        command=f"{_GOLDEN} --golden=mps.manifest.json",
    ),
    usage(
        "bundles a program with the manifest of another",
        "the manifest of net.pte describes another program",
        command=f"{_BUNDLE} --program=good.pte --name=net.pte",
        recorded=False,
    ),
    usage(
        "bundles a license outside of the bundle",
        "expected a relative one without ..",
        command=f"{_BUNDLE} --program=mps.pte --name=net.pte --license=../LICENSE=good.py",
    ),
    usage(
        "bundles a program at an absolute path",
        "'/models/net.pte'",
        command=f"{_BUNDLE} --program=mps.pte --name=/models/net.pte",
    ),
    usage(
        "compares a program by the manifest of another",
        "mps.manifest.json describes another program",
        command="diff good.pte mps.pte --before-manifest=mps.manifest.json",
        recorded=False,
    ),
    usage(
        "writes a header with the manifest of another program",
        "the manifest of good.pte describes another program",
        command="header --pte=good.pte --manifest=mps.manifest.json --header=net.h",
        recorded=False,
    ),
    usage(
        "passes a manifest as the sizes of arenas",
        "mps.manifest.json was not written by `runner --memory`",
        command="header --pte=mps.pte --manifest=mps.manifest.json --memory=mps.manifest.json --header=net.h",
        recorded=False,
    ),
    run(
        "links no backend",
        "DC518",
        "has delegates of MPSBackend, which is not linked",
        command="header --pte=mps.pte --manifest=mps.manifest.json --header=net.h",
        recorded=False,
    ),
    usage(
        "passes more reports than manifests",
        "2 reports",
        command="index --manifest=mps.manifest.json --report=a --report=b --page=net.html",
    ),
    usage(
        "lists operators without a program",
        "--program=FOO.pte or --manifest",
        command="operators --yaml=net.yaml",
    ),
    run(
        "lists the operators of an exported model",
        "DC350",
        "such as a .pt2",
        command="operators --label=//pkg:net --program=good.pt2 --yaml=net.yaml",
    ),
    usage(
        "lists the operators that are left without a program",
        "--selected-operators describe a .pte",
        command="lower --program=good.pt2 --selected-operators=net.yaml",
    ),
)

TABLE: Final = {"In manifests and records": MANIFESTS}
