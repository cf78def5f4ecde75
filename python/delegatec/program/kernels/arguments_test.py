# SPDX-License-Identifier: Apache-2.0
"""Arguments of kernels as values."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.program.emitted import ListValue, Value
from delegatec.program.kernels.arguments import ArgumentError, ArgumentLowering, parameters
from delegatec.program.method_values import MethodValues

aten = torch.ops.aten


def _argument(operator: Any, name: str) -> Any:
    return next(each for each in parameters(operator) if each.name == name)


class _Lowering:
    def __init__(self) -> None:
        self.values = MethodValues()
        self.scalars: list[tuple[Any, torch.dtype]] = []
        self.nodes: list[Any] = []
        self.lowering = ArgumentLowering(self.values, self._node, self._scalar)

    def _node(self, node: Any) -> int:
        self.nodes.append(node)
        return self.values.add(f"node {node.name}")

    def _scalar(self, number: Any, dtype: torch.dtype) -> int:
        self.scalars.append((number, dtype))
        return self.values.add(f"scalar {number}")

    def lower(self, operator: Any, name: str, value: Any, dtype: torch.dtype = torch.float32) -> Value:
        return self.values.values[self.lowering.lower(_argument(operator, name), value, dtype)]


@pytest.fixture(name="lowering")
def _lowering() -> _Lowering:
    return _Lowering()


@pytest.mark.parametrize(
    ("operator", "name", "value", "expected"),
    [
        (aten.add.out, "alpha", 1, 1),
        (aten.add.out, "alpha", 1.0, 1.0),
        (aten.clamp.out, "min", None, None),
        (aten.clamp.out, "max", float("-inf"), float("-inf")),
        (aten._softmax.out, "half_to_float", False, False),
        (aten.native_layer_norm.out, "eps", 1, 1.0),
        (aten.gelu.out, "approximate", "tanh", "tanh"),
        (aten._to_copy.out, "memory_format", torch.preserve_format, 1),
        (aten.clone.out, "memory_format", torch.contiguous_format, 0),
        (aten.sum.IntList_out, "dtype", torch.float16, 5),
        (aten.sum.IntList_out, "dtype", None, None),
        (aten.sum.IntList_out, "dim", None, None),
        (aten.convolution.out, "transposed", True, True),
        (aten.full.out, "fill_value", True, True),
        (aten.any.dims_out, "keepdim", True, True),
        (aten.upsample_nearest2d.vec_out, "scale_factors", [2.0, 2], ListValue("DoubleList", (2.0, 2.0))),
    ],
)
def test_values(lowering: _Lowering, operator: Any, name: str, value: Any, expected: Value) -> None:
    result = lowering.lower(operator, name, value)
    assert type(result) is type(expected) and result == expected


def test_lists_of_integers_are_indices_of_values(lowering: _Lowering) -> None:
    result = lowering.lower(aten.constant_pad_nd.out, "pad", [1, 0, 1])
    assert isinstance(result, ListValue) and result.kind == "IntList"
    assert [lowering.values.values[int(index)] for index in result.items] == [1, 0, 1]
    assert result.items[0] == result.items[2]


def test_one_number_represents_a_fixed_list(lowering: _Lowering) -> None:
    result = lowering.lower(aten.avg_pool2d.out, "kernel_size", 3)
    assert isinstance(result, ListValue) and len(result.items) == 2


def test_symbolic_sizes_in_lists(lowering: _Lowering) -> None:
    graph = torch.fx.Graph()
    size = graph.placeholder("size")
    result = lowering.lower(aten.view_copy.out, "size", [size, 4])
    assert isinstance(result, ListValue)
    assert [lowering.values.values[int(index)] for index in result.items] == ["node size", 4]


def test_lists_of_tensors(lowering: _Lowering) -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    assert lowering.lower(aten.cat.out, "tensors", [x, y, x]) == ListValue("TensorList", (0, 1, 2))
    indices = lowering.lower(aten.index.Tensor_out, "indices", [None, x])
    assert isinstance(indices, ListValue)
    assert indices.kind == "OptionalTensorList" and indices.items[0] == -1


@pytest.mark.parametrize(
    ("number", "operand", "dtype"),
    [
        (2, torch.float16, torch.float16),
        (2.5, torch.float16, torch.float16),
        (2, torch.int32, torch.int32),
        (2.5, torch.int32, torch.float32),
        (True, torch.int32, torch.int32),
        (2, torch.bool, torch.int64),
        (True, torch.bool, torch.bool),
        (2.5, torch.bool, torch.float32),
    ],
)
def test_scalars_instead_of_tensors(
    lowering: _Lowering, number: Any, operand: torch.dtype, dtype: torch.dtype
) -> None:
    lowering.lower(aten.mul.out, "other", number, operand)
    assert lowering.scalars == [(number, dtype)]


def test_equal_values_are_shared_and_unequal_ones_are_not(lowering: _Lowering) -> None:
    argument = _argument(aten.full.out, "fill_value")
    lower = lowering.lowering.lower
    values = [1, 1.0, True, 0.0, -0.0, float("nan"), None]
    indices = [lower(argument, value, torch.float32) for value in values]
    assert len(set(indices)) == len(values)
    assert indices == [lower(argument, value, torch.float32) for value in values]


@pytest.mark.parametrize(
    ("operator", "name", "value"),
    [
        (aten.clone.out, "memory_format", torch.channels_last),
        (aten.full.out, "fill_value", 1j),
        (aten.sum.IntList_out, "dim", [object()]),
    ],
)
def test_unsupported_arguments_are_errors(lowering: _Lowering, operator: Any, name: str, value: Any) -> None:
    with pytest.raises((ArgumentError, TypeError)):
        lowering.lower(operator, name, value)
