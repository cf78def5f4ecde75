# SPDX-License-Identifier: Apache-2.0
"""Delegates that exchange channels-last values with their dimensions in memory order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from delegatec.delegation import BackendRegistry, to_backend
from delegatec.delegation.delegates.operators import operator_nodes
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.edge import EdgeProgram, print_program
from delegatec.edge.testing import edge

aten = torch.ops.aten
LAST = torch.channels_last
IMAGE = torch.rand(2, 3, 4, 5).to(memory_format=LAST)


class OrderedBackend(EagerBackend):
    """Exchanges channels-last values in memory order, except for doubles."""

    def orders_boundary(self, value: Tensor) -> bool:
        return value.dtype != torch.float64


def _lowered(
    function: Callable[..., Any], *left: Any, backend: EagerBackend | None = None, image: Tensor = IMAGE
) -> tuple[EdgeProgram, list[list[tuple[int, ...]]]]:
    """Lowers a function, compares it with eager mode, and returns the shapes at the boundary of delegates."""
    program = edge(function, image)
    registry = BackendRegistry([backend or OrderedBackend()])
    program, report = to_backend(program, SupportsAllBut(*left), registry=registry)
    expected = pytree.tree_leaves(function(image))
    results = torch.fx.Interpreter(program.graph_module).run(image)
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted)
    values: Any = program.output_node().args[0]
    assert [spec.arg.name for spec in program.output_specs] == [node.name for node in values]
    originals = [delegate.module.original for delegate in report.delegates]
    shapes = [[tuple(n.meta["val"].shape) for n in (*each.inputs, *each.outputs)] for each in originals]
    return program, shapes


ROWS, MEMORY = (2, 3, 4, 5), (2, 4, 5, 3)
CASES: dict[str, tuple[Callable[[Tensor], Any], tuple[Any, ...], list[list[tuple[int, ...]]]]] = {
    "complete": (lambda x: x.exp(), (), [[MEMORY, MEMORY]]),
    "row-major output": (lambda x: x.contiguous().exp(), (), [[MEMORY, ROWS]]),
    "two delegates": (lambda x: x.exp().sin().cos(), (aten.sin.default,), [[MEMORY, ROWS], [ROWS, MEMORY]]),
    "also used outside": (lambda x: (x.exp(), x.sin()), (aten.sin.default,), [[MEMORY, MEMORY]]),
    "output also used outside": (
        lambda x: ((y := x.exp()), y.sin().sum(1)),
        (aten.sin.default, aten.sum.dim_IntList),
        [[MEMORY, ROWS, MEMORY]],
    ),
    "returned twice": (lambda x: ((y := x.exp()), y), (), [[MEMORY, MEMORY]]),
    "converted before": (
        lambda x: x.to(torch.float16).exp(),
        (aten._to_copy.default,),
        [[MEMORY, MEMORY]],
    ),
    "converted after": (lambda x: x.exp().to(torch.float16), (aten._to_copy.default,), [[MEMORY, MEMORY]]),
    "returned as it is and converted": (
        lambda x: ((y := x.exp()), y.to(torch.float16)),
        (aten._to_copy.default,),
        [[MEMORY, MEMORY]],
    ),
    "converted, also used": (
        lambda x: ((y := x.to(torch.float16)).exp(), y.sin()),
        (aten._to_copy.default, aten.sin.default),
        [[ROWS, MEMORY]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_cross_in_the_order_of_memory(name: str) -> None:
    function, left, expected = CASES[name]
    program, shapes = _lowered(function, *left)
    assert shapes == expected
    assert {node.target for node in operator_nodes(program)} == set(left)


def test_printed() -> None:
    program, _ = _lowered(lambda x: (x.exp(), x.sin()), aten.sin.default)
    lines = [line.split("  #")[0] for line in print_program(program).splitlines()]
    assert "\n".join(lines).strip() == (
        """
forward(%args_0: f32[2, 3, 4, 5]):
  %1: f32[2, 4, 5, 3] = aten.permute.default(%args_0, [0, 2, 3, 1])
  lowered_0: NoneType = lowered_0()
  %3: (f32[2, 4, 5, 3]) = delegatec_call_delegate(lowered_0, %1)
  %4: f32[2, 4, 5, 3] = getitem(%3, 0)
  %5: f32[2, 3, 4, 5] = aten.permute.default(%4, [0, 3, 1, 2])
  %6: f32[2, 3, 4, 5] = aten.sin.default(%args_0)
  return [%5, %6]
""".strip()
    )


def test_the_report_is_that_of_the_model() -> None:
    program = edge(lambda x: x.to(torch.float16).exp(), IMAGE)
    registry = BackendRegistry([OrderedBackend()])
    _, report = to_backend(program, SupportsAllBut(aten._to_copy.default), registry=registry)
    (delegate,) = report.delegates
    assert delegate.operators == {"aten.exp.default": 1}
    assert (delegate.input_names, delegate.output_names) == (("_to_copy_default",), ("exp",))
    assert (report.nodes_left, report.nodes_before) == (1, 2)


@pytest.mark.parametrize("backend", [EagerBackend(), OrderedBackend()])
def test_other_backends_dtypes_and_orders_cross_row_major(backend: EagerBackend) -> None:
    is_ordered = isinstance(backend, OrderedBackend)
    image = IMAGE.double() if is_ordered else IMAGE
    assert _lowered(lambda x: x.exp(), backend=backend, image=image)[1] == [[ROWS, ROWS]]
    assert _lowered(lambda x: x.exp(), image=IMAGE.contiguous())[1] == [[ROWS, ROWS]]


def test_permutations_that_the_partitioner_rejects_are_not_added() -> None:
    program, shapes = _lowered(lambda x: x.exp(), aten.permute.default)
    assert shapes == [[ROWS, ROWS]] and not operator_nodes(program)


def test_an_input_that_is_written_to_crosses_row_major() -> None:
    program = edge(lambda x: x.mul_(2).exp().sum(1), IMAGE.clone())
    _, report = to_backend(program, SupportsAllBut(), registry=BackendRegistry([OrderedBackend()]))
    (delegate,) = report.delegates
    assert tuple(delegate.module.original.inputs[0].meta["val"].shape) == ROWS
