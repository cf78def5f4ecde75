# SPDX-License-Identifier: Apache-2.0
"""Manifests whose parts do not fit together are refused when they are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from delegatec.report.html import render_html
from delegatec.report.manifest import SCHEMA_VERSION, FileInfo, Manifest, from_json, to_json
from delegatec.report.memory_info import MemoryInfo, PlannedStorage
from delegatec.report.methods import DelegateInfo, GraphNode, MethodInfo, OperatorCount, QuantizedValue
from delegatec.samples.search import Search, SearchPoint

Method = dict[str, Any]
DELEGATE = DelegateInfo("lowered_0", "A", 8, "0" * 8, 1, (OperatorCount("add", 1),), {}, (), (), ())
METHOD = MethodInfo(
    name="forward",
    backends=("a",),
    inputs=(),
    outputs=(),
    nodes=3,
    nodes_delegated=1,
    instructions=3,
    kernels=(OperatorCount("aten::cumsum.out", 2),),
    delegates=(DELEGATE,),
    not_delegated=(),
    memory=MemoryInfo(
        64, 48, "largest", (PlannedStorage("x", 32, 0, -1, 2), PlannedStorage("y", 16, 32, 2, 3))
    ),
    graph=(
        GraphNode("cumsum", "aten.cumsum.default", None, (), True, False, None),
        GraphNode("call", "A", 0, (0,), True, False, None),
        GraphNode("cumsum_1", "aten.cumsum.default", None, (0, 1), False, True, None),
    ),
    quantized=(
        QuantizedValue("w", "weight", "int8", (0.5, 1.0), (0, 0), 4, None),
        QuantizedValue("x", "activation", "int8", (), (), 0, None),
    ),
)
TEXT = to_json(Manifest(SCHEMA_VERSION, "test", "//:a", "a", {}, (METHOD,), (), (), FileInfo(8, "0" * 8, ())))


def test_parts_that_fit_are_read_and_drawn() -> None:
    manifest = from_json(TEXT)
    assert manifest.methods == (METHOD,)
    page = render_html(manifest)
    assert "aten::cumsum.out" in page and "lowered_0" in page


EDITS: dict[str, tuple[Callable[[Method], object], str]] = {
    "a later node": (
        lambda m: m["graph"][1]["inputs"].append(1),
        "node 1 reads node 1, which does not precede it",
    ),
    "no node": (lambda m: m["graph"][2]["inputs"].append(9), "node 2 reads node 9"),
    "a node before the first": (lambda m: m["graph"][2]["inputs"].append(-1), r"inputs\[2\] is -1, expected"),
    "no delegate": (lambda m: m["graph"][1].update(delegate=1), "node 1 is delegate 1, but there are 1"),
    "fewer delegates": (lambda m: m["delegates"].clear(), "node 1 is delegate 0, but there are 0"),
    "no calls": (lambda m: m["kernels"][0].update(count=0), r"kernels\[0\]\.count is 0, expected at least 1"),
    "a size": (lambda m: m["memory"].update(arena_bytes=-1), r"arena_bytes is -1, expected at least 0"),
    "a writer": (
        lambda m: m["memory"]["storages"][1].update(first=7, last=8),
        "storage y is written by instruction 7 of 3",
    ),
    "a long life": (
        lambda m: m["memory"]["storages"][0].update(first=-(2**62)),
        "storage x is written by instruction -4611686018427387904",
    ),
    "a reader": (
        lambda m: m["memory"]["storages"][1].update(last=1),
        "storage y is read by instruction 1, before 2 writes it",
    ),
    "an offset": (
        lambda m: m["memory"]["storages"][1].update(offset=60),
        "storage y ends at 76 in an arena of 64 bytes",
    ),
    "a range": (
        lambda m: m["quantized"][0]["scales"].pop(),
        "the range of the scales of w has 1 values",
    ),
    "another range": (
        lambda m: m["quantized"][1]["zero_points"].append(0),
        "the range of the zero points of x has 1 values",
    ),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
def test_other_parts_are_named(edit: Callable[[Method], object], message: str) -> None:
    document = json.loads(TEXT)
    edit(document["methods"][0])
    with pytest.raises(ValueError, match=message):
        from_json(json.dumps(document))


def test_names_of_methods_are_unique() -> None:
    document = json.loads(TEXT)
    document["methods"] *= 2
    with pytest.raises(ValueError, match="2 methods are named 'forward'"):
        from_json(json.dumps(document))


@pytest.mark.parametrize("chosen", [0, 2])
def test_a_search_has_one_choice(chosen: int) -> None:
    point = SearchPoint(0, 1.0, 64, 0.5, True)
    points = [asdict(point) | {"is_chosen": index < chosen} for index in range(3)]
    search = asdict(Search("", 2, 1.0, 0.5, 1, 2, (point,), ()))
    document = json.loads(TEXT) | {"search": search}
    assert "Layers in float" in render_html(from_json(json.dumps(document)))
    search["points"] = points if chosen else []
    with pytest.raises(ValueError, match="search does not have one chosen point"):
        from_json(json.dumps(document))


def test_a_long_life_is_drawn() -> None:
    """The last reader may be any number: a value that outlives the method is read by its caller."""
    document = json.loads(TEXT)
    document["methods"][0].update(instructions=2**62)
    document["methods"][0]["memory"]["storages"][1].update(last=2**62)
    assert "Memory plan" in render_html(from_json(json.dumps(document)))
