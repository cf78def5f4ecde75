# SPDX-License-Identifier: Apache-2.0
"""Storages of a method's tensors, with their lifetimes.

A view of planned memory needs no kernel: it is another tensor in the same memory. Such views are chosen here,
before emission, since they determine the lifetimes of storages. Bodies of control flow are inlined by
`control_flow`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Final

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.edge.control_flow import FORMS
from delegatec.edge.program import CONSTANT_KINDS, EdgeProgram
from delegatec.program.external import ExternalWeights
from delegatec.program.planning.assignment import Assignment, Storages
from delegatec.program.planning.control_flow import place_call
from delegatec.program.planning.exchanges import exchanged_inputs, exchanged_outputs
from delegatec.program.planning.in_place import writes_in_place
from delegatec.program.planning.instructions import (
    PlannedKernel,
    PlannedNode,
    PlannedResize,
    slot_of,
    source_of,
)
from delegatec.program.planning.memory_plan import CALLERS, PLANNED, STATE
from delegatec.program.planning.state_views import views_of_state
from delegatec.program.planning.views import is_static, offset_in_operand, place_view, prefix_sizes
from delegatec.program.symbolic import EQUAL, NOT


@dataclass(frozen=True)
class Placing:
    """The tensors outside the method's planned memory.

    Attributes:
        share_state: whether mutable buffers are in the arena shared by all methods.
        plan_inputs: whether inputs are copied into planned memory; those that a program writes to never are.
        plan_outputs: whether outputs are in planned memory.
        external: the weights in a `.ptd`: a view of one is a copy.
    """

    share_state: bool = False
    plan_inputs: bool = True
    plan_outputs: bool = True
    external: ExternalWeights = field(default_factory=lambda: ExternalWeights({}))


# All tensors are in planned memory, except for inputs that a program writes to.
PLAN_ALL: Final = Placing()


def assign_storages(program: EdgeProgram, placing: Placing = PLAN_ALL) -> Storages:
    """Determines memory and lifetime of every tensor of a program.

    Mutable buffers are alive from before the first instruction until after the last: they are the model's
    state.

    Args:
        program: the method.
        placing: the tensors outside planned memory; none of them may share memory, which `separate_outputs`
            ensures.
    """
    assignment = Assignment(program, placing.external)
    result = assignment.result
    result.in_place = writes_in_place(program)
    result.state_views = views_of_state(
        program, result.in_place, lambda node: offset_in_operand(node, assignment.orders) is not None
    )
    for node, source in exchanged_inputs(program).items():
        if not placing.plan_inputs or source.name in result.mutable:
            result.aliases[slot_of(node)] = slot_of(source)
            assignment.exchanged.add(node)
    if not placing.plan_outputs:
        for slot, node in exchanged_outputs(program).items():
            result.aliases[slot] = slot_of(node)
            assignment.exchanged.add(node)
    for node, spec in zip(program.placeholders(), program.input_specs, strict=True):
        is_state = node.name in result.mutable or spec.kind not in CONSTANT_KINDS
        if is_state and isinstance(node.meta["val"], torch.Tensor):
            arena = PLANNED
            if spec.kind is InputKind.USER_INPUT:
                if node.name in result.mutable or not placing.plan_inputs:
                    arena = CALLERS
            elif placing.share_state:
                arena = STATE
            assignment.place(slot_of(node), first=-1, arena=arena)
    _run(assignment, program)
    end = len(result.instructions) + 1
    for node in program.output_node().all_input_nodes:
        assignment.read(slot_of(node), end)
    for node in program.placeholders():
        if node.name in result.mutable:
            assignment.read(slot_of(node), end)
    assignment.finish()
    if not placing.plan_outputs:
        for node in output_tensors(program):
            if not result.shares_memory(slot_of(node)):
                result.placements[slot_of(node)].storage.arena = CALLERS
    return result


def output_tensors(program: EdgeProgram) -> list[Node]:
    """Returns the tensors returned to the caller, in order."""
    return [
        result
        for result in program.user_outputs()
        if isinstance(result, Node) and isinstance(result.meta["val"], torch.Tensor)
    ]


def _run(assignment: Assignment, program: EdgeProgram) -> None:
    """Appends the instructions of a program, or of a body with known operands."""
    constants = program.fixed_constants()
    for node in program.placeholders():
        if node.name in constants:
            assignment.place_constant(node, constants[node.name])
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if node.target in FORMS:
            place_call(assignment, program, node, _run)
            continue
        if node.target is operator.ne:
            # the runtime only compares for equality
            slot = slot_of(node)
            assignment.instructions.append(PlannedKernel(node, EQUAL, (*map(source_of, node.args), slot)))
            assignment.instructions.append(PlannedKernel(node, NOT, (slot, slot)))
            continue
        for source in node.all_input_nodes:
            assignment.read_all(source)
        if node in assignment.result.in_place:
            assignment.place_write(node)
            assignment.instructions.append(PlannedNode(node))
        elif not place_view(assignment, node):
            assignment.place_results(node)
            assignment.instructions.append(PlannedNode(node))
        elif node in assignment.result.state_views and not is_static(node):
            sizes = prefix_sizes(node)
            assert sizes is not None
            assignment.instructions.append(PlannedResize(node, sizes))
