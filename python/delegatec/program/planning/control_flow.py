# SPDX-License-Identifier: Apache-2.0
"""Linearization of control flow to instructions with jumps.

`cond` jumps over one of its branches; the others jump back. Operands of a body are aliases of the call's
operands. A body computes directly into the memory of the call's result, or of the loop's state, if nothing
else needs that memory at the time, and is copied otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.edge.control_flow import COND, FORMS, WHILE_LOOP, bodies_of, group
from delegatec.edge.program import EdgeProgram
from delegatec.program.planning.assignment import Assignment
from delegatec.program.planning.instructions import (
    PlannedJump,
    PlannedKernel,
    PlannedMove,
    Slot,
    Source,
    source_of,
)
from delegatec.program.symbolic import EQUAL, is_symbolic

Run = Callable[[Assignment, EdgeProgram], None]

# Slots of a call besides its results: the iteration index, the number of iterations, whether the last one is
# done, whether this is the first one; lower indices are temporaries while the state of a loop changes.
_ITERATION: Final = -1
_NUM_ITERATIONS: Final = -2
_DONE: Final = -3
_IS_FIRST: Final = -4
_KEPT: Final = -5

_COPY: Final = ("aten::clone", "out")
_ROW: Final = ("aten::select_copy", "int_out")
_STORE_ROW: Final = ("executorch_prim::et_copy_index", "tensor")
_UNSQUEEZE: Final = ("aten::unsqueeze_copy", "out")
_SIZE: Final = ("aten::sym_size", "int")
_ADD: Final = ("executorch_prim::add", "Scalar")


def place_call(assignment: Assignment, program: EdgeProgram, call: Node, run: Run) -> None:
    """Linearizes a call of control flow.

    Args:
        assignment: receives its instructions.
        program: the program or body that contains it.
        call: the call.
        run: linearizes a body whose operands have slots.
    """
    laid_out = _Call(assignment, program, call, run)
    if call.target is COND:
        _place_cond(laid_out)
    elif call.target is WHILE_LOOP:
        _place_while(laid_out)
    else:
        _place_rows(laid_out)


class _Call:
    """A call under construction."""

    def __init__(self, assignment: Assignment, program: EdgeProgram, call: Node, run: Run) -> None:
        form = FORMS[call.target]
        self.assignment = assignment
        self.node = call
        self.bodies = bodies_of(program, call)
        self.carried = [source_of(operand) for operand in group(call, form.carried)]
        self.sliced = [source_of(operand) for operand in group(call, form.sliced)]
        self.free = [source_of(operand) for operand in group(call, form.free)]
        self.state: list[Slot] = [(call, index) for index in range(len(self.carried))]
        self._run = run

    def run(self, body: EdgeProgram, operands: Sequence[Source]) -> list[Source]:
        """Linearizes a body, and returns its results."""
        for node, operand in zip(body.user_inputs(), operands, strict=True):
            if (node, 0) != operand:
                self.assignment.result.aliases[node, 0] = operand
        self._run(self.assignment, body)
        results: Any = body.output_node().args[0]
        return [self.assignment.result.resolve(source_of(result)) for result in results]

    def kernel(self, operator: tuple[str, str], *args: Source) -> None:
        """Emits a kernel call, and extends the lifetimes of its operands."""
        for source in args:
            self.assignment.read(source)
        self.assignment.instructions.append(PlannedKernel(self.node, operator, args))

    def move(self, source: Source, target: Slot) -> None:
        """Sets a scalar."""
        self.assignment.instructions.append(PlannedMove(self.node, source, target))

    def jump(self, condition: Source, destination: int = -1) -> PlannedJump:
        """Emits a jump unless `condition` holds; the destination may be set later."""
        self.assignment.read(condition)
        jump = PlannedJump(self.node, condition, destination)
        self.assignment.instructions.append(jump)
        return jump

    def copy(self, source: Source, target: Slot) -> None:
        """Emits a copy of a tensor or scalar into the memory of a slot, which is allocated if needed."""
        if not isinstance(self.assignment.result.val(target), torch.Tensor):
            self.move(source, target)
            return
        if target not in self.assignment.result.placements:
            self.assignment.place(target)
        self.kernel(_COPY, source, None, target, target)

    def is_own(self, source: Source, target: Slot, start: int) -> bool:
        """Whether a value can be computed in the memory of a result: it is new, and fills the result.

        Args:
            source: the result of a body.
            target: the result of the call.
            start: position of the first instruction of the body.
        """
        placement = self.assignment.placement(source)
        if placement is None or not isinstance(source, tuple):
            return False
        fills_storage = placement.offset == 0 and placement.storage.size == self.assignment.byte_size(target)
        if not fills_storage or placement.storage.first < start:
            return False
        # A tensor of dynamic size is a single value, which views and delegates do not share.
        is_static = not any(map(self._is_dynamic, (source, target)))
        is_result = source[0].target is not call_delegate
        return is_static or (is_result and source in self.assignment.result.placements)

    def adopt(self, source: Source, target: Slot) -> None:
        """Merges the memory of a value into that of a result."""
        assert isinstance(source, tuple)
        result = self.assignment.result
        own = self.assignment.placement(source)
        target_placement = self.assignment.placement(target)
        assert own is not None
        if target_placement is None:
            result.placements[target] = own
        else:
            self.assignment.merge(own.storage, target_placement.storage)
        if source in result.growing:
            result.growing.add(target)
        if self._is_dynamic(source) or self._is_dynamic(target):
            result.aliases[source] = target

    def _is_dynamic(self, slot: Slot) -> bool:
        val = self.assignment.result.val(slot)
        return slot in self.assignment.result.growing or any(map(is_symbolic, val.shape))

    def slot_of_rows(self) -> Slot:
        """Returns the first tensor whose rows are iterated."""
        slot = self.assignment.result.resolve(self.sliced[0])
        assert isinstance(slot, tuple)
        return slot

    def start_state(self) -> None:
        """Copies the initial state of a loop into its own memory."""
        for source, target in zip(self.carried, self.state, strict=True):
            self.copy(source, target)

    def store_row(self, source: Source, target: Slot, iteration: Slot) -> None:
        """Appends a tensor to the rows of a result."""
        if any(map(is_symbolic, self.assignment.result.val(target).shape[1:])):
            # The kernel does not set the sizes of a row; the first row does.
            is_first = (self.node, _IS_FIRST)
            self.assignment.result.values[is_first] = False
            self.kernel(EQUAL, iteration, 0, is_first)
            skip = self.jump(is_first)
            self.kernel(_UNSQUEEZE, source, 0, target, target)
            skip.destination = self.assignment.position
        self.kernel(_STORE_ROW, target, source, iteration)

    def next_state(self, values: Sequence[Source], start: int) -> None:
        """Sets the state of a loop to the results of an iteration.

        Args:
            values: one for each state variable.
            start: position of the first instruction of the loop.
        """
        changes = [
            (source, target)
            for source, target in zip(values, self.state, strict=True)
            if not self._is_same(source, target)
        ]
        still_read = self._storages(source for source, _ in changes)
        copies: list[tuple[Source, Slot]] = []
        for source, target in changes:
            old, new = self.assignment.placement(target), self.assignment.placement(source)
            is_free = (
                old is not None
                and new is not None
                and id(new.storage) not in self._storages(self.state)
                and id(old.storage) not in still_read
                and old.storage.last < new.storage.first
            )
            if is_free and self.is_own(source, target, start):
                self.adopt(source, target)
            else:
                copies.append((source, target))
        self._copy_together(copies)

    def _storages(self, sources: Iterable[Source]) -> set[int]:
        """Returns identities of the storages of values."""
        found = map(self.assignment.placement, sources)
        return {id(placement.storage) for placement in found if placement is not None}

    def _is_same(self, source: Source, target: Slot) -> bool:
        """Whether a state is unchanged: the same value, or a view of all of it in the same order."""
        if source == target:
            return True
        here, there = self.assignment.placement(source), self.assignment.placement(target)
        if here is None or there is None or not isinstance(source, tuple):
            return False
        return here == there and not self._is_dynamic(source) and not self._is_dynamic(target)

    def _copy_together(self, copies: Sequence[tuple[Source, Slot]]) -> None:
        """Copies values to states in parallel: a state that another one reads is saved first."""
        changing = self._storages(target for _, target in copies)
        targets = {target for _, target in copies}
        ready: list[tuple[Source, Slot]] = []
        for index, (source, target) in enumerate(copies):
            if source in targets or self._storages([source]) & changing:
                kept = (self.node, _KEPT - index)
                self.assignment.result.values[kept] = self.assignment.result.val(target)
                self.copy(source, kept)
                source = kept
            ready.append((source, target))
        for source, target in ready:
            self.copy(source, target)


def _place_cond(call: _Call) -> None:
    condition = source_of(call.node.args[0])
    (true, false), count = call.bodies, len(call.node.meta["val"])
    to_false = call.jump(condition)
    _place_branch(call, true, count)
    to_end = call.jump(False)
    to_false.destination = call.assignment.position
    _place_branch(call, false, count)
    to_end.destination = call.assignment.position


def _place_branch(call: _Call, body: EdgeProgram, count: int) -> None:
    """Linearizes a branch, whose results become those of the call."""
    start = call.assignment.position
    values = call.run(body, call.free)
    adopted: set[int] = set()
    for source, index in zip(values, range(count), strict=True):
        target = (call.node, index)
        placement = call.assignment.placement(source)
        if (
            placement is not None
            and id(placement.storage) not in adopted
            and call.is_own(source, target, start)
        ):
            call.adopt(source, target)
            adopted.add(id(placement.storage))
            continue
        call.copy(source, target)


def _place_while(call: _Call) -> None:
    condition, body = call.bodies
    call.start_state()
    with call.assignment.loop() as start:
        (holds,) = call.run(condition, [*call.state, *call.free])
        to_end = call.jump(holds)
        call.next_state(call.run(body, [*call.state, *call.free]), start)
        call.jump(False, start)
    to_end.destination = call.assignment.position


def _place_rows(call: _Call) -> None:
    """Linearizes `map` and `scan`, with one iteration per row."""
    (body,), assignment, node = call.bodies, call.assignment, call.node
    iterations, done, iteration = (node, _NUM_ITERATIONS), (node, _DONE), (node, _ITERATION)
    assignment.result.values.update({iteration: 0, done: False})
    count: Any = assignment.result.val(call.slot_of_rows()).shape[0]
    if not isinstance(count, int):
        assignment.result.values[iterations] = count
        call.kernel(_SIZE, call.sliced[0], 0, iterations)
        count = iterations
    stacked: list[Slot] = [(node, index) for index in range(len(call.state), len(node.meta["val"]))]
    call.start_state()
    for slot in stacked:
        assignment.place(slot)
    assignment.result.growing.update(stacked)
    call.move(0, iteration)
    with assignment.loop() as start:
        rows: list[Source] = []
        for node_of_row, source in zip(
            list(body.user_inputs())[len(call.state) :], call.sliced, strict=False
        ):
            if node_of_row.users:
                assignment.place((node_of_row, 0))
                call.kernel(_ROW, source, 0, iteration, (node_of_row, 0), (node_of_row, 0))
            rows.append((node_of_row, 0))
        values = call.run(body, [*call.state, *rows, *call.free])
        for source, slot in zip(values[len(call.state) :], stacked, strict=True):
            call.store_row(source, slot, iteration)
        call.next_state(values[: len(call.state)], start)
        call.kernel(_ADD, iteration, 1, iteration)
        call.kernel(EQUAL, iteration, count, done)
        call.jump(done, start)
