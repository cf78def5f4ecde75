# SPDX-License-Identifier: Apache-2.0
"""Values of nodes, in a graph that is a list of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import nn
from torch.fx import Node

from delegatec.backends.common.node_values import Number, TypedValues
from delegatec.backends.common.testing import floats
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge import to_edge

WIDER: Final = {(torch.float16, torch.float32)}


class Listed(TypedValues[int, None]):
    """Values are numbers of texts.

    Attributes:
        texts: what each value is.
    """

    def __init__(self, view: PartitionView) -> None:
        super().__init__(view, None)
        self.texts: list[tuple[str, torch.dtype]] = []

    def temporary(self, shape: Sequence[Any], dtype: torch.dtype) -> int:
        return self._add("temporary", dtype)

    def scalar(self, number: Number, dtype: torch.dtype) -> int:
        return self.shared((number, dtype), lambda: self._add(f"scalar {number}", dtype))

    def dtype_of(self, value: int) -> torch.dtype:
        return self.texts[value][1]

    def _weight(self, node: Node, tensor: torch.Tensor, dtype: torch.dtype) -> int:
        return self._add("weight", dtype)

    def _cast(self, value: int, dtype: torch.dtype) -> int:
        return self._add(f"cast {value}", dtype)

    def _widens(self, narrow: torch.dtype, wide: torch.dtype) -> bool:
        return (narrow, wide) in WIDER

    def _add(self, text: str, dtype: torch.dtype) -> int:
        self.texts.append((text, dtype))
        return len(self.texts) - 1


class Net(nn.Module):
    """A node with two results, and a weight that has two names."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(floats(4))
        self.other = nn.Buffer(self.weight.detach())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = x.topk(2, 0)
        return values * self.weight, values + self.other, indices


def _built() -> tuple[Listed, dict[str, Node]]:
    program = to_edge(torch.export.export(Net(), (floats(3, 4),)))
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return Listed(PartitionView(program, nodes)), {node.name: node for node in program.graph.nodes}


def test_a_weight_with_two_names_is_stored_once() -> None:
    values, _ = _built()
    first, second = values.view.constants
    assert values.of(first) == values.of(second) == values.of(first)
    assert values.texts == [("weight", torch.float32)]
    tensor = values.constant_value(first)
    assert tensor is not None and torch.equal(tensor, values.view.constants[first])


def test_results_are_those_of_their_getitem_nodes() -> None:
    values, nodes = _built()
    (topk,) = (node for name, node in nodes.items() if name.startswith("topk"))
    ids = [values.result(topk, index) for index in (0, 1)]
    assert {values.of(user): user.args[1] for user in topk.users} == {ids[0]: 0, ids[1]: 1}
    assert [values.dtype_of(id) for id in ids] == [torch.float32, torch.int64]
    values.alias(topk, ids[1])
    assert values.of(topk) == ids[1]


def test_conversions_are_shared_and_inverted() -> None:
    values, _ = _built()
    half = values.temporary([4], torch.float16)
    wide = values.converted(half, torch.float32)
    assert values.converted(half, torch.float32) == wide != half
    assert values.converted(wide, torch.float16) == half
    integer = values.converted(wide, torch.int32)
    assert values.converted(integer, torch.float32) not in (wide, integer)
    assert values.converted(half, torch.float16) == half


def test_operands() -> None:
    values, _ = _built()
    weight = next(iter(values.view.constants))
    assert values.operand(2, torch.int32) == values.operand(2, torch.int32)
    assert values.operand(weight, torch.float32) == values.of(weight)
    assert values.texts[values.operand(weight, torch.float16)] == (f"cast {values.of(weight)}", torch.float16)


def test_weights_keep_their_precision_in_float32() -> None:
    values, _ = _built()
    weight, other = values.view.constants
    weight.meta["val"] = weight.meta["val"].half()
    assert values.texts[values.in_float32(weight)] == ("weight", torch.float32)
    assert values.in_float32(weight) == values.in_float32(weight)
    assert values.dtype_of(values.of(weight)) == torch.float16
    assert values.in_float32(other) == values.of(other)
