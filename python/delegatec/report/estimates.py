# SPDX-License-Identifier: Apache-2.0
"""Estimates of delegates in the manifest, and budgets for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from delegatec.delegation import LoweredModule
from delegatec.diagnostics import Diagnostic
from delegatec.report.graph import location_of
from delegatec.report.manifest import Manifest
from delegatec.report.memory_info import AllocatorInfo
from delegatec.report.methods import EstimateInfo, LayerInfo

_SHARED: Final = ("sram_bytes", "dram_bytes")
"""Memory that delegates use one after another."""
_NOT_ADDED: Final = ("clock_hz",)

# Figure -> where to look, if it is beyond its limit.
_HELP: Final = {
    "arena_bytes": "the report draws the memory plan",
    "delegates": "the report draws the partition; `reasons` lists what is not delegated",
    "file_bytes": "the report lists the weights by size",
    "method_allocator_bytes": "the report lists what an app allocates for each method",
    "temporary_allocator_bytes": "the report lists what an app allocates for each method",
    "undelegated": "the output group `reasons` lists them, with the lines of the model",
    "model_weight_bytes": "the report lists the weights by size",
}


def estimate_info(module: LoweredModule) -> EstimateInfo | None:
    """Returns the estimates of a delegate, with the user's lines, if they are known."""
    estimates = module.estimates
    if estimates is None:
        return None
    nodes = module.original.by_handle()

    def layer(name: str, operation: str, figures: Mapping[str, int]) -> LayerInfo:
        handles = module.debug_handle_map.get(name, ())
        found = [location_of(nodes[handle]) for handle in handles if handle in nodes]
        return LayerInfo(name, operation, dict(figures), next(filter(None, found), None))

    layers = tuple(layer(each.name, each.operation, each.figures) for each in estimates.layers)
    return EstimateInfo(estimates.source, dict(estimates.totals), layers)


def costly(layers: Sequence[LayerInfo]) -> list[LayerInfo]:
    """Returns operations by their first figure, the largest first."""
    return sorted(layers, key=lambda layer: -next(iter(layer.figures.values()), 0))


def figure_names(layers: Sequence[LayerInfo]) -> list[str]:
    """Returns the names of the figures that are not 0 for all operations."""
    names = dict.fromkeys(name for layer in layers for name in layer.figures)
    return [name for name in names if any(layer.figures.get(name) for layer in layers)]


def figures_of(manifest: Manifest) -> dict[str, int]:
    """Returns the figures of a program that a budget may limit.

    Those of delegates are sums, except memory that one delegate uses after another: it is the largest.
    """
    found = {
        "file_bytes": manifest.file.bytes,
        "arena_bytes": max((method.memory.arena_bytes for method in manifest.methods), default=0),
        "model_weight_bytes": _weight_bytes(manifest),
        "delegates": sum(len(method.delegates) for method in manifest.methods),
        "undelegated": sum(method.nodes - method.nodes_delegated for method in manifest.methods),
    }
    allocators = list(_allocators(manifest))
    unknown = {name for allocator, name in allocators if allocator.besides}
    for allocator, name in allocators:
        if name not in unknown:
            found[name] = max(found.get(name, 0), allocator.bytes)
    for method in manifest.methods:
        for delegate in method.delegates:
            for name, value in ({} if delegate.estimates is None else delegate.estimates.totals).items():
                if name in _NOT_ADDED:
                    continue
                before = found.get(name, 0)
                found[name] = max(before, value) if name in _SHARED else before + value
    return found


def _allocators(manifest: Manifest) -> Iterator[tuple[AllocatorInfo, str]]:
    """Yields the allocators of all methods, on a 64-bit platform, each with the name of its figure."""
    for method in manifest.methods:
        if method.arenas is not None:
            yield method.arenas.method, "method_allocator_bytes"
            yield method.arenas.temporary, "temporary_allocator_bytes"


def _weight_bytes(manifest: Manifest) -> int:
    """Returns the size of all weights, in the model's dtypes; methods and delegates may share some."""
    delegated = [
        weight for method in manifest.methods for delegate in method.delegates for weight in delegate.weights
    ]
    return sum({weight.names: weight.bytes for weight in (*manifest.weights, *delegated)}.values())


def budget_problems(manifest: Manifest, limits: Mapping[str, int]) -> Iterator[Diagnostic]:
    """Yields DC509 for each figure beyond its limit, or unknown.

    Args:
        manifest: of the program.
        limits: name of a figure -> the largest valid value.
    """
    figures = figures_of(manifest)
    for name, limit in limits.items():
        if name not in figures:
            yield _unknown(name, manifest, figures)
        elif figures[name] > limit:
            yield Diagnostic(
                "DC509",
                f"{name} is {figures[name]}, {figures[name] - limit} more than the budget",
                expected=f"at most {limit}",
                help=_HELP.get(name, "the report lists the estimates of each operation"),
            )


def _unknown(name: str, manifest: Manifest, figures: Mapping[str, int]) -> Diagnostic:
    besides = sorted(
        {
            each
            for allocator, of_name in _allocators(manifest)
            for each in allocator.besides
            if of_name == name
        }
    )
    if besides:
        return Diagnostic(
            "DC509",
            f"{name} is unknown, because of {' and '.join(besides)}",
            expected=", ".join(sorted(figures)),
            help="remove the limit",
        )
    return Diagnostic(
        "DC509",
        f"no backend of the program estimates {name!r}",
        expected=", ".join(sorted(figures)),
        help="remove the limit: only the compiler of a device, such as Vela, estimates it",
    )
