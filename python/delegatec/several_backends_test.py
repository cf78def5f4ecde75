# SPDX-License-Identifier: Apache-2.0
"""Operators that one backend preserves are not hidden from the others, in any order."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

import delegatec
from delegatec.backends import builtin_backends
from delegatec.delegation import BackendRegistry, PartitionRules, call_delegate
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.module import EdgeModule
from delegatec.edge.testing import called, export
from delegatec.lowering import Program, lower

aten = torch.ops.aten
SILU, INSTANCE_NORM = aten.silu.default, aten.instance_norm.default
GROUP_NORM = aten.native_group_norm.default
X = torch.linspace(-2, 2, 24).reshape(1, 3, 8)


class Preserving(EagerBackend):
    """Preserves operators, and supports some of those or none."""

    def __init__(self, name: str, preserved: Sequence[OpOverload], taken: Sequence[OpOverload] = ()) -> None:
        super().__init__(f"{name}Backend")
        self.name = name
        self.preserved, self.taken = frozenset(preserved), frozenset(taken)

    def preserved_operators(self) -> frozenset[OpOverload]:
        return self.preserved

    def partitioner(self, compile_specs: Sequence[Any]) -> SupportsAllBut:
        return TakeOnly(self.taken, self.id)


class TakeOnly(SupportsAllBut):
    """Supports the operators that it names."""

    def __init__(self, taken: frozenset[OpOverload], backend_id: str) -> None:
        super().__init__(backend_id=backend_id)
        self.taken = taken

    def partition(self, program: EdgeProgram) -> Any:
        targets = {node.target for node in program.graph.nodes if node.op == "call_function"}
        self.left = tuple(targets - self.taken - {call_delegate, operator.getitem})
        return super().partition(program)


def silu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x.exp()).sin()


def in_branches(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.cond(x.sum() > 0, silu, lambda y: silu(y).cos(), (x,))
    return result


def instance_norm(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.instance_norm(x)


def registry(*backends: EagerBackend) -> BackendRegistry:
    found = builtin_backends()
    for backend in backends:
        found.register(backend)
    return found


def lowered(model: Any, order: Sequence[str], *backends: EagerBackend, **options: Any) -> Program:
    return lower({"forward": export(model, X)}, order, registry=registry(*backends), **options)


def delegates(result: Program) -> list[str]:
    return [delegate.module.backend_id for delegate in result.reports["forward"].delegates]


@pytest.mark.parametrize("order", [["hoarder", "mps"], ["mps", "hoarder"]])
def test_a_backend_that_rejects_all_preserved_operators(order: list[str]) -> None:
    result = lowered(silu, order, Preserving("hoarder", [SILU]))
    report = result.reports["forward"]
    assert delegates(result) == ["MPSBackend"]
    assert (report.nodes_left, report.rejections) == (0, [])
    alone = lowered(silu, ["mps"]).reports["forward"]
    assert report.delegates[0].module.blob_bytes() == alone.delegates[0].module.blob_bytes()
    assert (report.nodes_before, report.nodes_delegated) == (alone.nodes_before, alone.nodes_delegated)


def test_between_two_that_preserve_it() -> None:
    backends = Preserving("hoarder", [SILU]), Preserving("taker", [SILU], [SILU])
    assert delegates(lowered(silu, ["hoarder", "mps", "taker"], *backends)) == ["MPSBackend"]
    first = lowered(silu, ["hoarder", "taker", "mps"], *backends)
    assert sorted(delegates(first)) == ["MPSBackend", "MPSBackend", "takerBackend"]
    assert first.reports["forward"].delegates[0].operators == {"aten.silu.default": 1}


def test_composites_are_kept_for_a_later_backend_if_no_earlier_one_supports_the_decomposition() -> None:
    sines = Preserving("sines", [], [aten.sin.default])
    result = lowered(silu, ["sines", "taker"], sines, Preserving("taker", [SILU], [SILU]))
    assert delegates(result) == ["sinesBackend", "takerBackend"]
    # One of the two parts is not enough.
    half = Preserving("sines", [], [aten.sigmoid.default])
    result = lowered(silu, ["sines", "taker"], half, Preserving("taker", [SILU], [SILU]))
    assert delegates(result) == ["takerBackend"]


def test_a_part_that_a_later_backend_preserves_reaches_it() -> None:
    backends = (
        Preserving("hoarder", [INSTANCE_NORM]),
        Preserving("sines", []),
        Preserving("taker", [GROUP_NORM], [GROUP_NORM]),
    )
    result = lowered(instance_norm, ["hoarder", "sines", "taker"], *backends)
    assert delegates(result) == ["takerBackend"]
    assert GROUP_NORM not in called(result.programs["forward"])


def test_bodies_of_control_flow() -> None:
    result = lowered(in_branches, ["hoarder", "mps"], Preserving("hoarder", [SILU]))
    alone = lowered(in_branches, ["mps"])
    assert delegates(result) == delegates(alone) == ["MPSBackend"] * len(delegates(alone))
    left = {rejection.operator for rejection in result.reports["forward"].rejections}
    assert left == {"cond"}


def test_methods_with_other_backends() -> None:
    methods = {"one": export(silu, X), "two": export(silu, X)}
    result = lower(
        methods,
        "mps",
        method_backends={"two": ["hoarder", "mps"]},
        registry=registry(Preserving("hoarder", [SILU])),
    )
    assert [len(report.delegates) for report in result.reports.values()] == [1, 1]
    assert [report.nodes_left for report in result.reports.values()] == [0, 0]


def test_decomposed_operators_that_are_not_delegated_are_counted() -> None:
    result = lowered(
        silu, ["hoarder", "sines"], Preserving("hoarder", [SILU]), Preserving("sines", [], [aten.sin.default])
    )
    report = result.reports["forward"]
    assert (report.nodes_before, report.nodes_delegated, report.nodes_left) == (4, 1, 3)
    reasons = [(rejection.backend_id, rejection.operator) for rejection in report.rejections]
    assert reasons == [
        ("hoarderBackend", "aten.exp.default"),
        ("sinesBackend", "aten.exp.default"),
        ("sinesBackend", "aten.sigmoid.default"),
        ("sinesBackend", "aten.mul.Tensor"),
    ]


def test_rules_do_not_hide_it_either() -> None:
    rules = PartitionRules(block_operators=("aten.sin",))
    result = lowered(silu, ["hoarder", "mps"], Preserving("hoarder", [SILU]), rules=rules)
    assert delegates(result) == ["MPSBackend"]
    assert [r.operator for r in result.reports["forward"].rejections] == ["aten.sin.default"] * 2


def test_through_to_backend() -> None:
    hoarder = Preserving("hoarder", [SILU])
    program = to_edge(export(silu, X), preserve=[SILU])
    found = registry(hoarder)
    partitioners = [hoarder.partitioner([]), found.resolve("mps").partitioner([])]
    program, report = delegatec.to_backend(program, partitioners, registry=found)
    assert [delegate.module.backend_id for delegate in report.delegates] == ["MPSBackend"]
    assert report.nodes_left == 0
    torch.testing.assert_close(EdgeModule(program)(X), silu(X))
