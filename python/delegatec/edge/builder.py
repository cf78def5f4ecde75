# SPDX-License-Identifier: Apache-2.0
"""Inserts nodes into an edge program, with their metadata computed on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature
from delegatec.edge.symbols import SizeNodes

# What a node that replaces another one takes over from it.
_INHERITED = ("source", "debug_handle", "stack_trace", "nn_module_stack")


class Builder:
    """Creates nodes in front of an anchor node, which hands down its source location and debug handle.

    Args:
        program: gets the nodes.
        facts: what is known of its values; by default what follows from its constants.

    Values of new nodes are computed by running the operator on the fake values of its arguments, once for
    each distinct call signature. All values are dense and row-major: the edge program has no strides.
    """

    def __init__(self, program: EdgeProgram, facts: Facts | None = None) -> None:
        self.program = program
        self.facts = facts or Facts(program.fixed_constants())
        self.fake_mode = _fake_mode_of(program)
        self._sizes = SizeNodes(program)
        self._anchor: Node | None = None
        self._values: dict[Any, Any] = {}
        self._empty: dict[Any, torch.Tensor] = {}
        self._constants: dict[Any, Node] = {}

    @cached_property
    def facts(self) -> Facts:
        """What is known of the values of the program."""
        return Facts(self.program.fixed_constants())

    def at(self, anchor: Node) -> Builder:
        """Makes `anchor` the node in front of which the next nodes are created."""
        self._anchor = anchor
        return self

    def call(self, target: Callable[..., Any], *args: Any, val: Any = None, **kwargs: Any) -> Node:
        """Adds `target(*args, **kwargs)`.

        Args:
            target: an operator overload, or a function on symbolic integers.
            *args: nodes and constants.
            val: the value of the new node where it is known; computed otherwise.
            **kwargs: nodes and constants.
        """
        assert self._anchor is not None
        args = self._materialise(args)
        if val is None:
            val = self.infer(target, args, kwargs)
        with self.program.graph.inserting_before(self._anchor):
            node = self.program.graph.call_function(target, args, kwargs)
        self.adopt(node, val)
        return node

    def _materialise(self, value: Any) -> Any:
        """The same arguments with nodes for symbolic numbers."""
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.number(value)
        if isinstance(value, (tuple, list)):
            return type(value)(self._materialise(item) for item in value)
        return value

    def number(self, value: torch.SymInt | torch.SymFloat | torch.SymBool) -> Any:
        """The node that computes a symbolic number, or a number where it is one.

        Raises:
            UnknownSizeError: if it does not follow from values of the program.
        """
        return self._sizes.node_of(value)

    def adopt(self, node: Node, val: Any) -> None:
        """Gives a fresh node its value and what it inherits from the anchor."""
        assert self._anchor is not None
        for key in _INHERITED:
            if key in self._anchor.meta:
                node.meta[key] = self._anchor.meta[key]
        node.meta["val"] = self.dense(val)

    def infer(self, target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The value of a call, with fake values for the nodes among its arguments."""
        key = call_signature(target, args, kwargs)
        if key not in self._values:
            values = map_arg((tuple(args), kwargs), lambda node: node.meta["val"])
            with self.fake_mode:
                self._values[key] = self.dense(target(*values[0], **values[1]))
        return self._values[key]

    def empty(self, sizes: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        """A fake tensor of these sizes; calls of one dtype and static shape share it."""
        key = (dtype, *sizes) if all(isinstance(size, int) for size in sizes) else None
        if key not in self._empty:
            with self.fake_mode:
                value = torch.empty(sizes, dtype=dtype)
            if key is None:
                return value
            self._empty[key] = value
        return self._empty[key]

    def constant(self, tensor: torch.Tensor) -> Node:
        """Add a small constant to the program; equal ones are one placeholder.

        It is in front of all other placeholders, so that the user's inputs keep their order.
        """
        content = tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        key = (tensor.dtype, tuple(tensor.shape), content)
        if key not in self._constants:
            graph = self.program.graph
            with graph.inserting_before(next(iter(graph.nodes))):
                node = graph.placeholder("c_table")
            node.meta["val"] = self.empty(tensor.shape, tensor.dtype)
            spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name)
            self.program.input_specs.insert(0, spec)
            self.program.constants[node.name] = tensor.contiguous()
            self._constants[key] = node
        return self._constants[key]

    def dense(self, val: Any) -> Any:
        """The same value with row-major strides."""
        if isinstance(val, (tuple, list)):
            return type(val)(self.dense(item) for item in val)
        # of a size that depends on data torch cannot say whether its strides are row-major
        if not isinstance(val, torch.Tensor) or is_contiguous_or_false(val):
            return val
        with self.fake_mode:
            return torch.empty(val.shape, dtype=val.dtype, device=val.device)


def _fake_mode_of(program: EdgeProgram) -> FakeTensorMode:
    for node in program.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, FakeTensor):
            return val.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)
