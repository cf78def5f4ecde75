# SPDX-License-Identifier: Apache-2.0
"""Calls of an operator as an edge program, without torch.export, which is faster."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from delegatec.edge import EdgeProgram
from delegatec.edge.builder import Builder
from tests.operators.sample import Sample

aten = torch.ops.aten


def program_of(
    target: OpOverload, *samples: Sample, has_constants: bool = False, only_first: bool = False
) -> tuple[EdgeProgram, list[torch.Tensor]]:
    """Returns a program that calls `target` once for each sample, and its inputs in order.

    A tensor that is not row-major is passed as a row-major one, which the program permutes. The outputs are
    the results of all calls, in order.

    Args:
        target: the operator.
        samples: arguments of the calls.
        has_constants: whether all tensors of a call but the first are constants instead of inputs.
        only_first: whether only the first result of each call is an output.
    """
    calls = [(sample.args, sample.kwargs) for sample in samples]
    leaves, spec = pytree.tree_flatten(calls)
    shapes = ShapeEnv(allow_dynamic_output_shape_ops=True)
    fake_mode, graph = FakeTensorMode(shape_env=shapes), Graph()
    fixed = {*_others(calls)} if has_constants else {*()}
    orders = {
        i: _order(leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and i not in fixed
    }
    inputs = [leaves[i].permute(order).contiguous() for i, order in orders.items()]
    placeholders = [graph.placeholder(f"x{i}") for i in range(len(inputs))]
    for node, value in zip(placeholders, inputs, strict=True):
        with fake_mode:
            node.meta["val"] = torch.empty(value.shape, dtype=value.dtype)
    output = graph.output(())
    program = EdgeProgram(
        method="forward",
        graph_module=GraphModule({}, graph),
        input_specs=[InputSpec(InputKind.USER_INPUT, TensorArgument(n.name), None) for n in placeholders],
        output_specs=[],
        constants={},
        range_constraints={},
        in_spec=pytree.tree_structure(tuple(inputs)),
        out_spec=spec,
    )
    graph = program.graph
    output = program.output_node()
    builder = Builder(program).at(output)
    for (i, order), placeholder in zip(orders.items(), placeholders, strict=True):
        leaves[i] = placeholder
        if order != list(range(len(order))):
            leaves[i] = builder.call(aten.permute.default, placeholder, _inverse(order))
    for i in fixed:
        leaves[i] = builder.constant(leaves[i])
    results = []
    for args, kwargs in pytree.tree_unflatten(leaves, spec):
        results += _results(builder, builder.call(target, *args, **kwargs), only_first)
    output.args = (tuple(results),)
    program.output_specs = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(result.name), None) for result in results
    ]
    program.range_constraints.update(shapes.var_to_range)
    for node in graph.nodes:
        node.meta.update({"source": None, "debug_handle": 1})
    return program, inputs


def _others(calls: Sequence[Any]) -> Iterator[int]:
    """Yields the positions among all leaves of tensors that are not the first of their call."""
    position = 0
    for call in calls:
        leaves = pytree.tree_leaves(call)
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        yield from (position + i for i in tensors[1:])
        position += len(leaves)


def _results(builder: Builder, node: Node, only_first: bool) -> list[Node]:
    val = node.meta["val"]
    if not isinstance(val, (tuple, list)):
        return [node]
    used = val[:1] if only_first else val
    return [builder.call(operator.getitem, node, i, val=item) for i, item in enumerate(used)]


def _order(tensor: torch.Tensor) -> list[int]:
    """The order of dimensions in which a tensor is row-major."""
    if tensor.is_contiguous():
        return list(range(tensor.dim()))
    return sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(dim) for dim in range(len(order))]
