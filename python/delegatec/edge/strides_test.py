# SPDX-License-Identifier: Apache-2.0
"""Channels-last inputs; nothing else in a program has strides or depends on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.edge.strides import CHANNELS_LAST
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
LAST = torch.channels_last
IMAGE = torch.rand(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("example", "order"),
    [
        (IMAGE, None),
        (IMAGE.to(memory_format=LAST), CHANNELS_LAST),
        (IMAGE[:1].to(memory_format=LAST), CHANNELS_LAST),
        (torch.rand(4, 5, 3).permute(2, 0, 1)[None], CHANNELS_LAST),
        (IMAGE.to(memory_format=LAST).double(), CHANNELS_LAST),
        (IMAGE[:, :1].to(memory_format=LAST), None),
        (IMAGE.to(memory_format=LAST)[:, :2], None),
        (IMAGE.transpose(2, 3), None),
        (torch.rand(2, 4, 3).transpose(1, 2), None),
        (torch.rand(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d), None),
    ],
)
def test_the_order_is_that_of_the_example(example: torch.Tensor, order: Any) -> None:
    program = edge(lambda x: x + 1, example)
    (placeholder,) = program.user_inputs()
    assert program.dim_orders.get(placeholder.name) == order
    assert placeholder.meta["val"].is_contiguous()


@pytest.mark.parametrize("memory_format", [LAST, torch.contiguous_format])
def test_outputs_have_the_order_of_eager_mode_if_an_input_is_channels_last(memory_format: Any) -> None:
    image = IMAGE.to(memory_format=memory_format)

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * 2, x.contiguous() + 1, x.sum((2, 3)), y.to(memory_format=LAST), x[:, :1] + 1

    program = edge(function, image, torch.rand(2, 3, 4, 5))
    assert program.output_orders == ({0: CHANNELS_LAST, 3: CHANNELS_LAST} if memory_format is LAST else {})


def test_outputs_without_a_kernel_for_their_order_are_row_major() -> None:
    program = edge(lambda x: x.to(torch.uint16), IMAGE.to(memory_format=LAST))
    assert program.output_orders == {}


@pytest.mark.parametrize("index", [(0, 0), (slice(1, None), 0), (slice(None), slice(None), 1)])
def test_the_example_may_be_a_view(index: Any) -> None:
    example = torch.rand(3, 2, 4, 5, 6)[index]

    def function(x: torch.Tensor) -> torch.Tensor:
        return x[1:].unbind(1)[0] + 1

    assert_computes(edge(function, example), function(example), example)


@pytest.mark.parametrize("dynamic", [(0,), (2, 3), (0, 2, 3), (1,), (0, 1, 2, 3)])
def test_sizes_may_be_dynamic(dynamic: tuple[int, ...]) -> None:
    shapes = {dim: Dim(f"d{dim}", min=2, max=9) for dim in dynamic}
    image = IMAGE.to(memory_format=LAST)
    program = edge(lambda x: x + 1, image, dynamic_shapes=(shapes,))
    assert list(program.dim_orders.values()) == [CHANNELS_LAST]


def test_retraced_values_keep_their_order() -> None:
    image = torch.rand(4, 5, 3).permute(2, 0, 1)[None]
    program = edge(lambda x: torch.vmap(lambda row: row + 1)(x), image)
    assert list(program.dim_orders.values()) == [CHANNELS_LAST]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone(memory_format=LAST) + 1,
        lambda x: x.to(torch.float64, memory_format=LAST),
        lambda x: torch.ones_like(x, memory_format=LAST) + x,
        lambda x: x.contiguous(memory_format=LAST) * 2,
    ],
)
def test_no_call_has_a_memory_format(function: Any) -> None:
    program = edge(function, IMAGE)
    assert called(program)
    for node in program.graph.nodes:
        assert not any(isinstance(v, torch.memory_format) for v in (*node.args, *node.kwargs.values()))
    assert_computes(program, function(IMAGE), IMAGE)


def test_unsupported_orders_are_reported_with_other_errors() -> None:
    image = torch.ones(2, 3, 4, 5, dtype=torch.uint16).to(memory_format=LAST)

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.clone(), y.t().as_strided((3, 2), (1, 3))

    with pytest.raises(DelegatecError) as error:
        edge(model, image, torch.rand(2, 3))
    codes = [(d.code, d.node) for d in error.value.diagnostics]
    assert [code for code, _ in codes] == ["DC205", "DC205"]
    assert {node for _, node in codes} == {"args_0", "as_strided"}


def test_sparse_values_are_reported_by_later_checks() -> None:
    assert aten._to_sparse.default in called(edge(lambda x: x.to_sparse(), torch.rand(2, 3)))


def test_operators_with_dim_orders_are_those_of_aten() -> None:
    library = torch.library.Library("dim_order_ops", "FRAGMENT")
    name = "_to_dim_order_copy"
    if not hasattr(torch.ops.dim_order_ops, name):
        library.define(f"{name}(Tensor self, *, ScalarType? dtype=None, int[]? dim_order=None) -> Tensor")
        library.impl(name, lambda x, dtype=None, dim_order=None: x.to(dtype), "CompositeExplicitAutograd")

    def function(x: torch.Tensor) -> torch.Tensor:
        copied = torch.ops.dim_order_ops._to_dim_order_copy(x, dtype=torch.int32, dim_order=[0, 1, 2, 3])
        result: torch.Tensor = copied + 1
        return result

    program = edge(function, IMAGE)
    assert called(program) == [aten._to_copy.default, aten.add.Scalar]
    assert_computes(program, IMAGE.to(torch.int32) + 1, IMAGE)
