# SPDX-License-Identifier: Apache-2.0
"""The slots of a graph's values.

Graphs are lazy: a tensor in a slot stays in memory until the end of the run, unless another one replaces it
before the graph is computed, and only a tensor that nothing refers to gives its memory to a result. So
temporaries share slots as early as they can: an instruction reads its operands before it writes its results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from delegatec.backends.common.liveness import last_uses
from delegatec.backends.mlx.building.draft import Draft
from delegatec.backends.mlx.building.values import Array, Chain, Scalar, Value


class Slots:
    """The numbers of all values of a draft.

    Args:
        draft: the graph, without dead code.

    Attributes:
        counts: number of constants, inputs, outputs, buffers and temporaries.
        described: tensors other than temporaries, in the order of their slots.
        values: number of integers.
    """

    def __init__(self, draft: Draft) -> None:
        constants = list(draft.constants)
        inputs = [each for each in draft.inputs if isinstance(each, Array)]
        given: set[Value] = {*constants, *inputs, *draft.buffers}
        outputs = [
            each for each in dict.fromkeys(draft.outputs) if isinstance(each, Array) and each not in given
        ]
        self.described: Final[Sequence[Array]] = (*constants, *inputs, *outputs, *draft.buffers)
        self._ids: dict[Value, int] = {array: slot for slot, array in enumerate(self.described)}
        self._ids.update((view, self._ids[constant]) for view, (constant, _) in draft.prepared.items())
        self._scalars: dict[Value, int] = {}
        for each in draft.inputs:
            self._scalar(each)
        self._first = len(self.described)
        self._used = 0
        self._chain(draft.main, {*draft.outputs, *draft.observed}, [])
        self.counts: Final = tuple(map(len, (constants, inputs, outputs, draft.buffers)))
        self.temporaries: Final = self._used
        self.values: Final = len(self._scalars)

    def of(self, value: Value) -> int:
        """Returns the slot of a tensor or an integer, each numbered from 0."""
        return self._scalars[value] if isinstance(value, Scalar) else self._ids[value]

    def _scalar(self, value: Value) -> None:
        if isinstance(value, Scalar) and value not in self._scalars:
            self._scalars[value] = len(self._scalars)

    def _chain(self, chain: Chain, kept: Collection[Value], free: list[int]) -> None:
        """Allocates the temporaries of a chain.

        Args:
            chain: the chain.
            kept: values that are read after it.
            free: slots that it may use; it adds those that it no longer needs.
        """
        touched = list(_outer_values(chain, kept))
        indices: dict[Value, int] = {}
        for values in touched:
            for value in values:
                indices.setdefault(value, len(indices))
        known = list(indices)
        ends = last_uses(
            [[indices[value] for value in values] for values in touched],
            [indices[value] for value in kept if value in indices],
        )
        for operation, values, ended in zip(chain.operations, touched, ends, strict=True):
            last = [known[index] for index in ended]
            inner = list(operation.chains())
            # an instruction reads its operands before it writes its results, but a chain is several
            early = [] if inner else [value for value in last if self._is_temporary(value)]
            free += [self._ids[value] for value in early]
            for value in values:
                self._allocate(value, free)
            for each in inner:
                self._chain(each, values, free)
            free += [self._ids[value] for value in last if self._is_temporary(value) and value not in early]

    def _allocate(self, value: Value, free: list[int]) -> None:
        self._scalar(value)
        if isinstance(value, Array) and value not in self._ids:
            if not free:
                free.append(self._first + self._used)
                self._used += 1
            self._ids[value] = free.pop()

    def _is_temporary(self, value: Value) -> bool:
        return self._ids.get(value, -1) >= self._first


def _outer_values(chain: Chain, kept: Collection[Value]) -> Iterator[Sequence[Value]]:
    """Yields the values of each operation of a chain, without those that only one of its chains has."""
    touched = [dict.fromkeys((*operation.operands(), *operation.results())) for operation in chain.operations]
    counts = Counter(value for values in touched for value in values)
    for operation, values in zip(chain.operations, touched, strict=True):
        inner = Counter(
            value
            for each in operation.chains()
            for value in {v for part in each.operations for v in (*part.operands(), *part.results())}
        )
        yield [
            value
            for value in values
            if counts[value] > 1 or inner[value] != 1 or value in kept or value in operation.own_values()
        ]
