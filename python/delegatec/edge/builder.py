# SPDX-License-Identifier: Apache-2.0
"""Insertion of nodes into an edge program, with their metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.fakes import computed, no_shortcuts
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.memory_order import is_row_major
from delegatec.edge.program import EdgeProgram
from delegatec.edge.rule_names import CURRENT_PASS, RULE
from delegatec.edge.signature import call_signature
from delegatec.edge.size_nodes import SizeNodes

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

# The metadata that a node inherits from the node that it replaces.
_INHERITED = ("source", "debug_handle", "stack_trace", "nn_module_stack", FLOAT32, RULE)


class Builder:
    """Creates nodes before an anchor node, from which they inherit source location and debug handle.

    Values of new nodes are inferred by running the operator on the fake values of its arguments, once for
    each distinct call signature. All values are dense and row-major: the edge program has no strides.

    Args:
        program: receives the nodes.
        facts: analysis results on its values; those that follow from its constants by default.

    Attributes:
        rule: the name of the rule, or else of the pass, that creates the next nodes, which they keep.
    """

    def __init__(self, program: EdgeProgram, facts: Facts | None = None) -> None:
        self.program = program
        self.rule = CURRENT_PASS.get()
        self.facts = facts or Facts(program.fixed_constants())
        self.fake_mode = _fake_mode_of(program)
        self._sizes = SizeNodes(program)
        self._anchor: Node | None = None
        self._values: dict[Any, Any] = {}
        self._empty: dict[Any, torch.Tensor] = {}
        self._constants: dict[Any, Node] = {}
        self._specs: dict[str, InputSpec] = {}

    def at(self, anchor: Node) -> Builder:
        """Sets the anchor, before which nodes are created."""
        self._anchor = anchor
        return self

    def call(self, target: Any, *args: Any, val: Any = None, **kwargs: Any) -> Node:
        """Creates a call `target(*args, **kwargs)`.

        Args:
            target: an operator overload, or a function on symbolic integers.
            *args: nodes and constants.
            val: the value of the new node if known; inferred otherwise.
            **kwargs: nodes and constants.
        """
        assert self._anchor is not None
        args = tuple([each if isinstance(each, Node) else self._materialize(each) for each in args])
        if val is None:
            val = self.infer(target, args, kwargs)
        graph = self.program.graph
        with graph.inserting_before(self._anchor):
            node = graph.create_node("call_function", target, name=_name(target))
        # fx would search the arguments of a new node for symbolic scalars, which are nodes here
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        self.adopt(node, val)
        return node

    def copy(self, node: Node, value_of: Callable[[Node], Any]) -> Node:
        """Copies a node of any graph, with its metadata.

        Args:
            node: the node.
            value_of: returns what replaces an operand.
        """
        assert self._anchor is not None
        with self.program.graph.inserting_before(self._anchor):
            return self.program.graph.node_copy(node, value_of)

    def _materialize(self, value: Any) -> Any:
        """Replaces symbolic scalars in arguments by nodes."""
        if isinstance(value, _SYMBOLIC):
            return self.scalar(value)
        if isinstance(value, (tuple, list)):
            return type(value)([item if type(item) is int else self._materialize(item) for item in value])
        return value

    def scalar(self, value: torch.SymInt | torch.SymFloat | torch.SymBool) -> Any:
        """Returns the node that computes a symbolic scalar, or a constant scalar itself.

        Raises:
            UnknownSizeError: if it cannot be computed from values of the program.
        """
        return self._sizes.node_of(value, self._anchor)

    def adopt(self, node: Node, val: Any) -> None:
        """Sets the value of a new node, and the metadata that it inherits from the anchor."""
        assert self._anchor is not None
        for key in _INHERITED:
            if key in self._anchor.meta:
                node.meta[key] = self._anchor.meta[key]
        if self.rule:
            node.meta[RULE] = (*self._anchor.meta.get(RULE, ()), self.rule)
        node.meta["val"] = self.dense(val)

    def infer(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Infers the value of a call from the fake values of its operands."""
        key = call_signature(target, args, kwargs)
        if key not in self._values:
            values = map_arg((tuple(args), kwargs), lambda node: node.meta["val"])
            with self.fake_mode:
                self._values[key] = self.dense(computed(self.fake_mode, target, *values))
        return self._values[key]

    def empty(self, sizes: Sequence[Any], dtype: torch.dtype) -> torch.Tensor:
        """Returns a fake tensor; calls with the same dtype and shape share it."""
        key = (dtype, *(size.node.expr if isinstance(size, torch.SymInt) else size for size in sizes))
        if key not in self._empty:
            if any(type(size) is not int for size in sizes):
                with self.fake_mode, no_shortcuts():
                    self._empty[key] = torch.empty(sizes, dtype=dtype)
            else:
                # what the mode does for torch.empty, at a tenth of its cost
                meta = torch.empty(sizes, dtype=dtype, device="meta")
                self._empty[key] = FakeTensor(self.fake_mode, meta, torch.device("cpu"))
        return self._empty[key]

    def constant(self, tensor: torch.Tensor) -> Node:
        """Adds a small constant to the program, deduplicated.

        Its placeholder precedes all others, which keeps the order of the user's inputs.
        """
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        content = tensor.flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        key = (tensor.dtype, tuple(tensor.shape), content)
        if key not in self._constants:
            self._constants[key] = self._add(tensor, tensor.dtype)
        return self._constants[key]

    def derived(self, constant: Node, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> Node:
        """Adds a constant with the name and kind of another one, in another arrangement or dtype."""
        if constant.name not in self._specs:
            self._specs = self.program.specs_by_name()
        return self._add(tensor, dtype or constant.meta["val"].dtype, self._specs[constant.name])

    def stored(self, constant: Node, owner: EdgeProgram) -> Node:
        """Adds a constant of another program, with its name, kind and metadata."""
        tensor = owner.constants[constant.name]
        node = self._add(tensor, tensor.dtype, owner.specs_by_name()[constant.name])
        node.meta = {**constant.meta, "val": node.meta["val"]}
        return node

    def _add(self, tensor: torch.Tensor, dtype: torch.dtype, origin: InputSpec | None = None) -> Node:
        graph = self.program.graph
        with graph.inserting_before(next(iter(graph.nodes))):
            node = graph.placeholder("c_table")
        node.meta["val"] = self.empty(tensor.shape, dtype)
        argument = TensorArgument(node.name)
        spec = InputSpec(InputKind.CONSTANT_TENSOR, argument, node.name)
        self.program.input_specs.insert(0, replace(origin, arg=argument) if origin is not None else spec)
        self.program.constants[node.name] = tensor.contiguous()
        self.facts.add_constant(node, self.program.constants[node.name])
        return node

    def dense(self, val: Any) -> Any:
        """Returns the value with row-major strides."""
        if isinstance(val, (tuple, list)):
            return type(val)(self.dense(item) for item in val)
        if not isinstance(val, torch.Tensor) or is_row_major(val):
            return val
        return self.empty(val.shape, val.dtype)


@cache
def _name(target: Callable[..., Any]) -> str:
    """Returns the name that fx gives to calls of a function."""
    return str(Graph()._target_to_str(target)).replace(".", "_")


def _fake_mode_of(program: EdgeProgram) -> FakeTensorMode:
    for node in program.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, FakeTensor):
            return val.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)
