# SPDX-License-Identifier: Apache-2.0
"""Gives every tensor of a private program its representation, and inserts the transitions between them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import torch
from torch.export.graph_signature import TensorArgument
from torch.fx import Node

from delegatec.backends.vulkan.memory.choice import Problem, choose, transfer
from delegatec.backends.vulkan.memory.demands import Group, result_values
from delegatec.backends.vulkan.memory.representation import (
    ANY,
    INT8,
    MOST_TEXTURE_DIMENSIONS,
    Limits,
    Representation,
    fits,
)
from delegatec.backends.vulkan.memory.sizes import shape_of
from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten

REPRESENTATION: Final = "vulkan_representation"
"""Key of a node's metadata: the representation of its value, or a tuple of those of its results."""

# A dispatch costs as much as moving that many bytes (10 us at 6 GB/s).
_DISPATCH_BYTES: Final = 1 << 16


def assign(
    program: EdgeProgram,
    demands: Callable[[Node], Sequence[Group]],
    preference: Sequence[Representation],
    limits: Limits,
) -> bool:
    """Assigns representations, and inserts a clone wherever a value is needed in another one.

    Constants in a group of a call get a clone as well, in the group's representation: the runtime packs them
    once, before the first run.

    Args:
        program: edited in place; all its calls are legal.
        demands: returns the groups of a call.
        preference: representations, the preferred first.
        limits: of textures.

    Returns:
        Whether the program has calls.
    """
    _copy_constant_outputs(program)
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    work = _Assignment(program, preference, limits)
    for node in program.user_inputs():
        work.add_input(node)
    for node in calls:
        if node.target is not operator.getitem and not is_scalar(node):
            work.add_call(node, demands(node))
    work.solve()
    return bool(calls)


def _copy_constant_outputs(program: EdgeProgram) -> None:
    """Copies constants that rewrites made outputs: the runtime does not write them."""
    output = program.output_node()
    builder = Builder(program).at(output)
    for node in output.all_input_nodes:
        if node.name in program.constants:
            clone = builder.call(aten.clone.default, node)
            output.replace_input_with(node, clone)
            program.output_specs = [
                replace(spec, arg=TensorArgument(clone.name)) if spec.arg.name == node.name else spec
                for spec in program.output_specs
            ]


class _Assignment:
    def __init__(self, program: EdgeProgram, preference: Sequence[Representation], limits: Limits) -> None:
        self._program = program
        self._limits = limits
        self._problem = Problem([], preference)
        self._producers: dict[Node, int] = {}  # a node with one result -> its variable
        self._groups: list[tuple[Node, Group, int]] = []  # a call, a group and its variable
        self._results: dict[Node, list[int]] = {}  # a call -> the variables of its results

    def add_input(self, node: Node) -> None:
        """Adds an input of the delegate: the runtime can copy it to any representation."""
        shape = shape_of(node)
        possible = INT8 if node.meta["val"].dtype == torch.int8 else ANY
        domain = frozenset(each for each in possible if fits(shape, each, self._limits))
        self._producers[node] = self._variable(domain)

    def add_call(self, node: Node, groups: Sequence[Group]) -> None:
        """Adds a call."""
        variables = [self._variable(group.allowed) for group in groups]
        results = [-1] * len(result_values(node))
        for group, variable in zip(groups, variables, strict=True):
            self._groups.append((node, group, variable))
            for index in group.results:
                results[index] = variable
            if group.same_storage_as is not None:
                self._problem.links.append((variables[group.same_storage_as], variable))
        assert -1 not in results, f"{node.target} has results without a representation"
        self._results[node] = results
        if not isinstance(node.meta["val"], (tuple, list)):
            self._producers[node] = results[0]
        for user in node.users:
            if user.target is operator.getitem:
                self._producers[user] = results[user.args[1]]  # type: ignore[index]

    def _variable(self, domain: frozenset[Representation]) -> int:
        assert domain, "a call without a representation was accepted"
        self._problem.domains.append(domain)
        return len(self._problem.domains) - 1

    def solve(self) -> None:
        """Chooses, annotates nodes, and inserts transitions."""
        consumers: dict[Node, set[int]] = {}
        for _, group, variable in self._groups:
            for operand in group.operands:
                if operand in self._producers:
                    consumers.setdefault(operand, set()).add(variable)
        for node, users in consumers.items():
            others = frozenset(users - {self._producers[node]})
            if others:
                cost = 2 * _bytes(node) + _DISPATCH_BYTES
                self._problem.transfers.append(transfer(self._producers[node], others, cost))
        labels = choose(self._problem)
        for node, variable in self._producers.items():
            node.meta[REPRESENTATION] = labels[variable]
        for node, variables in self._results.items():
            if node not in self._producers:
                node.meta[REPRESENTATION] = tuple(labels[variable] for variable in variables)
        self._insert_transitions(labels)

    def _insert_transitions(self, labels: Sequence[Representation]) -> None:
        builder = Builder(self._program)
        made: dict[tuple[Node, Representation], Node] = {}
        for node, group, variable in self._groups:
            wanted = labels[variable]
            for operand in group.operands:
                if operand.meta.get(REPRESENTATION) is wanted:
                    continue
                key = (operand, wanted)
                if key not in made:
                    made[key] = _copied(builder.at(node), operand, wanted)
                node.replace_input_with(operand, made[key])


def _copied(builder: Builder, operand: Node, wanted: Representation) -> Node:
    """Copies a value to a representation; a constant of many dimensions is packed as one of few."""
    value = operand.meta["val"]
    constant = builder.program.constants.get(operand.name)
    if constant is None or value.dim() <= MOST_TEXTURE_DIMENSIONS:
        clone = builder.call(aten.clone.default, operand, val=value)
    else:
        rows = builder.derived(operand, constant.detach().reshape(-1), value.dtype)
        packed = builder.call(aten.clone.default, rows)
        packed.meta[REPRESENTATION] = wanted
        clone = builder.call(aten.view.default, packed, list(value.shape), val=value)
    clone.meta[REPRESENTATION] = wanted
    return clone


def _bytes(node: Node) -> int:
    return math.prod(shape_of(node)) * dtype_of(node).itemsize
