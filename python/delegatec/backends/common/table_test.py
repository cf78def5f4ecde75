# SPDX-License-Identifier: Apache-2.0
"""An operator table and its partitioner, for a fictitious backend."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import pytest
import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.common.row import OperatorRow, overload, variants
from delegatec.backends.common.table import OperatorTable
from delegatec.delegation import DelegationSpec
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import operand_dtypes, rank_at_most, result_dtypes
from delegatec.edge.legalize.rule import Rewrite

aten = torch.ops.aten


@dataclass
class Lowered:
    """Records lowered nodes, and the current node."""

    current: Node | None = None
    nodes: list[tuple[Node, Node | None]] = field(default_factory=list)


def lower(builder: Lowered, node: Node) -> None:
    builder.nodes.append((node, builder.current))


def slow(node: Node, is_fast: bool) -> str | None:
    return "it is slow" if is_fast else None


Row = OperatorRow[Lowered, bool]
TABLE = OperatorTable[Lowered, bool](
    {
        "Functions": (
            Row(aten.exp.default, lower, (operand_dtypes({torch.float32}, "no others."),)),
            Row(aten.sin.default, lower, (Constraint("speed", "It is fast.", slow, "wait"),)),
        ),
        "Shape": (
            Row(aten.unsqueeze.default, lower, computes=False),
            Row(aten.split.Tensor, lower, computes=False, preserved=True),
        ),
    },
    [rank_at_most(3, "there are no more.")],
)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.exp().cos(), x.unsqueeze(0).sin(), y.unsqueeze(0)


def edge() -> EdgeProgram:
    return to_edge(torch.export.export(Model(), (torch.rand(2, 2, 2), torch.rand(2))))


def partition(is_fast: bool) -> tuple[list[list[str]], list[tuple[str, str, str]]]:
    result = TablePartitioner(TableTarget(TABLE, {}, is_fast), DelegationSpec("Imagined")).partition(edge())
    groups = [[str(node.target) for node in group] for group in result.groups]
    return groups, [(str(r.node.target), r.rule, r.message) for r in result.rejections]


def test_nodes_with_a_row_and_satisfied_constraints_are_supported() -> None:
    groups, rejections = partition(is_fast=False)
    assert groups == [["aten.exp.default"]]
    assert [(operator, rule) for operator, rule, _ in rejections] == [
        ("aten.cos.default", "operator"),
        ("aten.unsqueeze.default", "rank"),
        ("aten.sin.default", "rank"),
        ("aten.unsqueeze.default", "trivial"),
    ]
    assert rejections[0][2] == "the delegate does not support aten.cos.default"
    assert rejections[1][2] == "rank 4. Rank is at most 3: there are no more."


def test_a_tensor_of_more_elements_than_indices_is_rejected() -> None:
    class Large(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.expand(2**16, 2**15).exp()

    program = to_edge(torch.export.export(Large(), (torch.rand(1, 2**15),)))
    result = TablePartitioner(TableTarget(TABLE, {}, False), DelegationSpec("Imagined")).partition(program)
    assert result.groups == []
    assert {each.rule for each in result.rejections} == {"size"}
    assert "a tensor of 2147483648 elements" in result.rejections[0].message


def test_settings_and_help_reach_the_constraints() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(aten.sin.default, (x,))
    x.meta["val"] = node.meta["val"] = torch.rand(3)
    assert TABLE.refusal(node, False, Facts({})) is None
    rejection = TABLE.refusal(node, True, Facts({}))
    assert rejection is not None
    assert (rejection.rule, rejection.message, rejection.help) == (
        "speed",
        "it is slow. It is fast.",
        "wait",
    )


def test_nodes_are_lowered_in_order_but_for_parts_of_results() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    split = graph.call_function(aten.split.Tensor, (x, 1))
    part = graph.call_function(operator.getitem, (split, 0))
    exp = graph.call_function(aten.exp.default, (part,))
    builder = Lowered()
    TABLE.lower(builder, [split, part, exp])
    assert builder.nodes == [(split, split), (exp, exp)]
    assert builder.current is None


def test_preserved_operators() -> None:
    assert TABLE.preserved() == {aten.split.Tensor}


def test_an_overload_with_two_rows_is_an_error() -> None:
    row = TABLE.rows[aten.exp.default]
    with pytest.raises(ValueError, match=r"aten\.exp\.default has two rows"):
        OperatorTable({"One": (row,), "Other": (row,)}, [])


@pytest.mark.parametrize("target", [aten.all.dim, aten._unsafe_view.default, aten.clone.default])
def test_a_row_of_an_operator_that_the_normal_form_removes_is_an_error(target: OpOverload) -> None:
    rewrites = {target: (Rewrite(target, lambda _builder, _node: None, preserved=True),)}
    kept = OperatorTable[Lowered, bool]({"Rows": (Row(target, lower, preserved=True),)}, [])
    private = OperatorTable[Lowered, bool]({"Rows": (Row(target, lower),)}, [], private=[target])
    unreachable = OperatorTable[Lowered, bool]({"Rows": (Row(target, lower),)}, [])
    for table, others in ((kept, {}), (private, {}), (unreachable, rewrites)):
        TableTarget(table, others, False)
    with pytest.raises(ValueError, match=f"removes the operators of rows: {target}"):
        TableTarget(unreachable, {}, False)


def test_a_private_operator_without_a_row_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no rows: aten\.cos\.default"):
        OperatorTable({}, [], private=[aten.cos.default])


def test_dtypes_in_a_sentence() -> None:
    allowed = {torch.bool, torch.int64, torch.float32, torch.int8, torch.float16}
    assert result_dtypes(allowed, "so it is.").doc == (
        "The result is float16, float32, int8, int64 or bool: so it is."
    )


def test_overloads_by_name() -> None:
    assert overload("exp") is aten.exp.default
    assert variants({"add": "Add"}, "Tensor", "Scalar") == {"add.Tensor": "Add", "add.Scalar": "Add"}
