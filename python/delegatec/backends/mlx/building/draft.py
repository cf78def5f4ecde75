# SPDX-License-Identifier: Apache-2.0
"""A graph under construction: its values, its constants, and the operations of its chains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from delegatec.backends.common.liveness import live
from delegatec.backends.mlx.building.values import Array, Chain, Operation, Value
from delegatec.delegation import Part


@dataclass(frozen=True)
class Constant:
    """A constant of a graph.

    Attributes:
        key: of its bytes in the named data of the program.
        data: these bytes; None if the program's `.ptd` has them.
        origin: name of the placeholder whose value it is; empty if there is none.
    """

    key: str
    data: Part | None
    origin: str = ""


class Draft:
    """The parts of a graph.

    Lowerings may emit dead code, such as a conversion of a result that has no uses: `drop_dead_code` removes
    it.

    Attributes:
        inputs: tensors and integers, in the order of the delegate's inputs.
        outputs: values, in the order of its outputs.
        buffers: its state, which the runtime keeps between runs.
        constants: tensor -> what it is.
        prepared: tensor -> a constant, and the operations that compute the tensor from it when the
            delegate is loaded. They write to the constant, which nothing else reads.
        main: the operations of each run.
        observed: values that nothing reads, whose operations have an effect.
    """

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.buffers: list[Array] = []
        self.constants: dict[Array, Constant] = {}
        self.prepared: dict[Array, tuple[Array, list[Operation]]] = {}
        self.main = Chain()
        self.observed: list[Value] = []
        self._open = [self.main]

    def append(self, operation: Operation) -> None:
        """Appends an operation to the innermost open chain."""
        self._open[-1].operations.append(operation)

    @contextmanager
    def chain(self) -> Iterator[Chain]:
        """Opens another chain, to which operations are appended until the end of the scope."""
        self._open.append(Chain())
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    def drop_dead_code(self) -> None:
        """Removes operations and constants on which no output, buffer or observed value depends."""
        needed: set[Value] = {*self.outputs, *self.buffers, *self.observed}
        _drop_dead_code(self.main, needed)
        self.prepared = {array: found for array, found in self.prepared.items() if array in needed}
        needed |= {constant for constant, _ in self.prepared.values()}
        needed |= {value for each in self.initial().operations for value in each.operands()}
        self.constants = {array: found for array, found in self.constants.items() if array in needed}

    def needed(self, results: Iterable[Value]) -> tuple[list[Operation], set[Value]]:
        """Returns the operations of the main chain on which some values depend, and all values that do."""
        return live(self.main.operations, results, Operation.operands, Operation.results)

    def initial(self) -> Chain:
        """Returns the operations that run when the delegate is loaded."""
        return Chain([each for _, operations in self.prepared.values() for each in operations])

    def walk(self) -> Iterator[Chain]:
        """Yields the main chain, and those that its operations run."""
        return self.main.walk()


def _drop_dead_code(chain: Chain, needed: set[Value]) -> None:
    """Removes operations on which no needed value depends; what the others read becomes needed."""
    kept = []
    for operation in reversed(chain.operations):
        if not needed.isdisjoint(operation.results()):
            for each in operation.chains():
                _drop_dead_code(each, needed | operation.own_values())
            needed |= set(operation.operands())
            kept.append(operation)
    chain.operations = kept[::-1]
