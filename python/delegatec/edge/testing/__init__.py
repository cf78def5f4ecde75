# SPDX-License-Identifier: Apache-2.0
"""Test helpers: conversion of functions to edge programs, and comparison of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.edge.builder import Builder
from delegatec.edge.convert import to_edge
from delegatec.edge.interpret import interpret
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.verifier import verify


class Function(nn.Module):
    """A function as a module; the function finds buffers as attributes of its first argument."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.wants_self = bool(buffers)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args) if self.wants_self else self.function(*args)


def export(model: Callable[..., Any], *inputs: Any, dynamic_shapes: Any = None) -> ExportedProgram:
    """Exports a module or a function for inference."""
    is_module = isinstance(model, nn.Module)
    module = model if isinstance(model, nn.Module) else Function(model)
    if not is_module and dynamic_shapes is not None:
        # `*args` are a single tuple
        dynamic_shapes = (dynamic_shapes,)
    return torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes)


def edge(model: Callable[..., Any], *inputs: Any, dynamic_shapes: Any = None, **options: Any) -> EdgeProgram:
    """Returns the edge program of a module or a function; `options` are those of `to_edge`."""
    return to_edge(export(model, *inputs, dynamic_shapes=dynamic_shapes), **options)


def called(program: EdgeProgram) -> list[OpOverload]:
    """Returns the operators that a program calls, in order."""
    return [node.target for node in program.graph.nodes if isinstance(node.target, OpOverload)]


def assert_computes(
    program: EdgeProgram, expected: Any, *inputs: Any, atol: float = 1e-6, rtol: float = 1e-5
) -> None:
    """Runs a program and compares all results, in order, with the leaves of `expected`."""
    results = interpret(program, pytree.tree_leaves(inputs))
    leaves = pytree.tree_leaves(expected, is_leaf=lambda x: x is None)
    assert len(results) == len(leaves)
    for result, leaf in zip(results, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            torch.testing.assert_close(result, leaf, atol=atol, rtol=rtol, equal_nan=True)
        else:
            assert type(result) is type(leaf) and result == leaf


def assert_rewrites(
    rewrites: Sequence[Rewrite],
    calls: Sequence[Sequence[Any]],
    dtype: torch.dtype,
    tolerance: float,
    keep: Sequence[int] | None = None,
    *,
    refuses: bool = False,
) -> None:
    """Checks that each rewrite of an operator applies to one of its calls, and has its results.

    Args:
        rewrites: those of the operator.
        calls: its positional arguments, as in `call_program`.
        dtype: of its floating-point operands.
        tolerance: absolute and relative.
        keep: indices of the results that are used, as in `call_program`.
        refuses: whether a rewrite may refuse some calls.
    """
    operator, applied = rewrites[0].target, set()
    for call in calls:
        args = pytree.tree_map(lambda each: each.to(dtype) if _is_float(each) else each, call)
        for rewrite in rewrites:
            program, wanted, tensors = call_program(operator, args, keep, preserve=[operator])
            (node,) = (each for each in program.graph.nodes if each.target is operator)
            result = rewrite(Builder(program).at(node), node)
            assert refuses or not isinstance(result, Refusal), result
            if result is None or isinstance(result, Refusal):
                continue
            applied.add(rewrite)
            replace(node, result)
            program.graph.eliminate_dead_code()
            verify(program)
            assert_computes(program, wanted, *tensors, rtol=tolerance, atol=tolerance)
    assert applied == set(rewrites)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def call_program(
    operator: OpOverload, call: Sequence[Any], keep: Sequence[int] | None = None, **options: Any
) -> tuple[EdgeProgram, Any, list[torch.Tensor]]:
    """Returns an edge program with one call on its inputs, the result in eager mode, and the inputs.

    Args:
        operator: the operator.
        call: its positional arguments; the last one is its keyword arguments if it is a dict.
        keep: indices of the results to output, for operators with several; all by default.
        options: options of `to_edge`; no passes by default.
    """
    kwargs = call[-1] if isinstance(call[-1], dict) else {}
    leaves, spec = pytree.tree_flatten(tuple(call[: len(call) - bool(kwargs)]))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def function(*inputs: torch.Tensor) -> Any:
        remaining = iter(inputs)
        filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        results = operator(*pytree.tree_unflatten(filled, spec), **kwargs)
        return results if keep is None else [results[position] for position in keep]

    return edge(function, *tensors, **{"passes": (), **options}), function(*tensors), tensors
