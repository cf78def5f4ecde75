# SPDX-License-Identifier: Apache-2.0
"""The page over many programs."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from delegatec.report.index import entry_of, index_html, index_json
from delegatec.report.manifest import SCHEMA_VERSION, FileInfo, Manifest
from delegatec.report.memory_info import MemoryInfo
from delegatec.report.methods import DelegateInfo, EstimateInfo, MethodInfo


def _manifest(label: str, backend: str, nodes: int, delegated: int, size: int, **totals: int) -> Manifest:
    estimates = EstimateInfo("Vela", {**totals, "weight_bytes": 7}, ()) if totals else None
    delegate = DelegateInfo("lowered_0", "X", 100, "0", delegated, (), {}, (), (), (), estimates)
    method = MethodInfo(
        name="forward",
        backends=(backend,),
        inputs=(),
        outputs=(),
        nodes=nodes,
        nodes_delegated=delegated,
        instructions=1,
        kernels=(),
        delegates=(delegate,) if delegated else (),
        not_delegated=(),
        memory=MemoryInfo(640, 640, "", ()),
        graph=(),
    )
    file = FileInfo(size, "0", ())
    return Manifest(SCHEMA_VERSION, "", label, backend, {"precision": "fp16"}, (method,), (), (), file)


MANIFESTS = [
    _manifest("//b:two", "ethos_u", 10, 10, 2000, cycles=4321),
    _manifest("//a:one", "mps", 8, 6, 4_000_000),
    _manifest("//a:<one>", "portable", 32, 0, 1000),
]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.external: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "a":
            self.links.append(values["href"])
        self.external += [values[name] for name in ("src", "srcset") if name in values]
        if tag == "link":
            self.external.append(values["href"])
        if tag not in ("meta", "input", "col", "link", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_rows_have_figures_and_links() -> None:
    entries = [entry_of(each, f"../{i}.html") for i, each in enumerate(MANIFESTS)]
    reader = _Reader()
    page = index_html(entries, "//:index")
    reader.feed(page)
    assert reader.open == [] and reader.external == [] and "http" not in page
    assert reader.links == ["../2.html", "../1.html", "../0.html"]  # sorted by package and name
    assert "<one>" in reader.text and "4,321" in reader.text
    assert "in 2 packages" in reader.text and "16 of 18 operators" in reader.text
    assert "1 delegate, 2 outside" in reader.text and "32 operators on kernels" in reader.text


def test_without_reports_and_estimates() -> None:
    reader = _Reader()
    reader.feed(index_html([entry_of(MANIFESTS[1])]))
    assert reader.links == [] and "Cycles" not in reader.text


def test_json() -> None:
    document = json.loads(index_json([entry_of(each) for each in MANIFESTS]))
    assert [each["label"] for each in document["programs"]] == ["//a:<one>", "//a:one", "//b:two"]
    last = document["programs"][2]
    assert (
        last["figures"]["cycles"] == 4321
        and last["figures"]["model_weight_bytes"] == 0
        and last["figures"]["file_bytes"] == 2000
    )
    assert (last["nodes"], last["nodes_delegated"], last["options"]) == (10, 10, "precision=fp16")


@pytest.mark.parametrize("count", [1, 2])
def test_order_of_programs_does_not_matter(count: int) -> None:
    entries = [entry_of(each) for each in MANIFESTS]
    shuffled = [*entries[count:], *entries[:count]]
    assert index_html(shuffled) == index_html(entries) and index_json(shuffled) == index_json(entries)
