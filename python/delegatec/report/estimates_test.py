# SPDX-License-Identifier: Apache-2.0
"""Estimates of delegates: in the manifest and the report, and compared with budgets."""

from __future__ import annotations

import dataclasses

import pytest

from delegatec.report.estimates import budget_problems, figures_of
from delegatec.report.html import render_html
from delegatec.report.manifest import SCHEMA_VERSION, FileInfo, Manifest, from_json, to_json
from delegatec.report.memory_info import AllocatorInfo, ArenaInfo, MemoryInfo
from delegatec.report.methods import DelegateInfo, EstimateInfo, LayerInfo, Location, MethodInfo, Weight


def _delegate(name: str, cycles: int, sram: int) -> DelegateInfo:
    line = Location("model.py", 7, "forward", "x = x + y")
    layers = tuple(
        LayerInfo(f"{name}_layer_{index}", "Add", {"cycles": index, "macs": 0}, line) for index in range(25)
    )
    estimates = EstimateInfo("Vela 5.2.0", {"cycles": cycles, "sram_bytes": sram, "clock_hz": 5}, layers)
    return DelegateInfo(name, "EthosUBackend", 100, "0", 1, (), {}, (), (), (), estimates)


@pytest.fixture
def manifest() -> Manifest:
    delegates = (_delegate("lowered_0", 30, 4000), _delegate("lowered_1", 12, 5000))
    memory = MemoryInfo(640, 640, "", ())
    method = MethodInfo("forward", ("ethos_u",), (), (), 2, 2, 2, (), delegates, (), memory, ())
    file = FileInfo(2048, "0", ())
    return Manifest(SCHEMA_VERSION, "", "//a:b", "ethos_u", {}, (method,), (), (), file)


def test_estimates_are_in_the_manifest(manifest: Manifest) -> None:
    assert from_json(to_json(manifest)) == manifest
    without = to_json(dataclasses.replace(manifest, methods=()))
    assert from_json(without).methods == ()


def test_the_report_lists_the_costly_operations(manifest: Manifest) -> None:
    page = render_html(manifest)
    assert "Estimates of <code>lowered_1</code>" in page and "by Vela 5.2.0" in page
    assert page.index("lowered_0_layer_24") < page.index("lowered_0_layer_5")
    assert "lowered_0_layer_4<" not in page and "5 cheaper operations" in page
    assert page.count("model.py:7") == 40


def test_figures_of_several_delegates(manifest: Manifest) -> None:
    assert figures_of(manifest) == {
        "file_bytes": 2048,
        "arena_bytes": 640,
        "model_weight_bytes": 0,
        "delegates": 2,
        "undelegated": 0,
        "cycles": 42,
        "sram_bytes": 5000,
    }


def test_figures_of_weights_and_of_delegation(manifest: Manifest) -> None:
    tied, other = (Weight(names, "float32", (4,), 16, False) for names in (("a", "b"), ("c",)))
    (method,) = manifest.methods
    first, second = (dataclasses.replace(each, weights=(tied,)) for each in method.delegates)
    method = dataclasses.replace(method, nodes=9, nodes_delegated=7, delegates=(first, second))
    found = figures_of(dataclasses.replace(manifest, methods=(method,), weights=(other,)))
    assert (found["model_weight_bytes"], found["undelegated"], found["delegates"]) == (32, 2, 2)
    (problem,) = budget_problems(dataclasses.replace(manifest, methods=(method,)), {"undelegated": 0})
    assert problem.message == "undelegated is 2, 2 more than the budget" and "`reasons`" in problem.help


def test_figures_of_allocators(manifest: Manifest) -> None:
    """The largest of all methods, unless the file does not tell what a backend takes."""
    first = ArenaInfo((640,), AllocatorInfo(1000), AllocatorInfo(7, ("EthosUBackend",)))
    second = ArenaInfo((640,), AllocatorInfo(2048), AllocatorInfo(9))
    methods = tuple(
        dataclasses.replace(manifest.methods[0], name=name, arenas=each)
        for name, each in (("forward", first), ("take", second))
    )
    manifest = dataclasses.replace(manifest, methods=methods)
    figures = figures_of(manifest)
    assert figures["method_allocator_bytes"] == 2048 and "temporary_allocator_bytes" not in figures
    assert [*budget_problems(manifest, {"method_allocator_bytes": 2048})] == []
    limits = {"method_allocator_bytes": 2047, "temporary_allocator_bytes": 100}
    too_large, unknown = budget_problems(manifest, limits)
    assert too_large.message == "method_allocator_bytes is 2048, 1 more than the budget"
    assert unknown.message == "temporary_allocator_bytes is unknown, because of EthosUBackend"
    assert from_json(to_json(manifest)) == manifest
    assert "temporary allocator" in render_html(manifest)


def test_budgets(manifest: Manifest) -> None:
    assert [*budget_problems(manifest, {"cycles": 42, "sram_bytes": 5000, "file_bytes": 2048})] == []
    cycles, macs = budget_problems(manifest, {"cycles": 40, "macs": 1})
    assert (cycles.code, cycles.message, cycles.expected) == (
        "DC509",
        "cycles is 42, 2 more than the budget",
        "at most 40",
    )
    assert macs.message == "no backend of the program estimates 'macs'"
    assert macs.expected == ", ".join(sorted(figures_of(manifest)))
    assert macs.help.startswith("remove the limit")
