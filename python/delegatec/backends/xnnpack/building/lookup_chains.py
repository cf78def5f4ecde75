# SPDX-License-Identifier: Apache-2.0
"""Chains of functions of one value, which the runtime computes by lookup tables.

The runtime replaces operations from one 8-bit value to another by a table of 256 results. It copies at most
ten of them into a graph on the stack, and runs that graph. XNNPACK of May to July 2026, as in the runtime
1.5.1, reserves memory for one operation more in each graph that it optimizes: for a chain of ten, it calls
`realloc` with memory of the stack, and the process ends when the program is loaded.

The copy of a binary operation has two results, as it has two operands, and the second is the first input of
the program. So a later operation that reads this input is part of the chain for the runtime, which computes
the table without the input's data: with one element or 256, the process ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.operands import operand_ids, result_ids

_MOST: Final = 9
QUANTIZED: Final = (DataType.INT8, DataType.UINT8)
UNARY: Final = frozenset(
    {
        *(Operation.Sigmoid, Operation.Clamp, Operation.Floor, Operation.Convert, Operation.SquareRoot),
        *(Operation.Ceiling, Operation.HardSwish, Operation.LeakyRelu, Operation.Negate, Operation.Square),
        *(Operation.Elu, Operation.Absolute, Operation.ReciprocalSquareRoot, Operation.Log, Operation.Gelu),
        *(Operation.Tanh, Operation.Exp, Operation.Sin, Operation.Cos),
    }
)
BINARY: Final = frozenset(
    {
        *(Operation.Add, Operation.Subtract, Operation.Multiply, Operation.Divide),
        *(Operation.Minimum, Operation.Maximum, Operation.Prelu),
    }
)


@dataclass(frozen=True)
class _Chain:
    """Operations from one quantized value on, each of which reads the result of the one before it.

    Attributes:
        start: the value.
        steps: indices of the operations.
        values: the start, all results and all scalars.
        is_binary: whether an operation is binary.
    """

    start: int
    steps: tuple[int, ...]
    values: frozenset[int]
    is_binary: bool = False


def split_chains(
    steps: Sequence[Step],
    inputs: Sequence[int],
    outputs: Collection[int],
    tensor: Callable[[int], schema.TensorT],
    like: Callable[[int], int],
) -> list[Step]:
    """Splits each chain that the runtime cannot copy, by a transpose that moves nothing.

    The runtime removes it after it has made the tables. For a scalar, it is a reshape.

    Args:
        steps: in execution order.
        inputs: of the program.
        outputs: values that others read.
        tensor: returns the tensor of a value.
        like: adds a value with the type and the shape of another.
    """
    readers = Counter(id for step in steps for id in {*operand_ids(step.node)})
    readers.update(outputs)
    chains: dict[int, _Chain] = {}  # of each value, that which ends with it
    split: set[int] = set()
    for index, step in enumerate(steps):
        found = _chain(step.node, chains, readers, tensor)
        if found is None:
            split.update(_ends_before(step.node, inputs[:1], chains, readers))
            continue
        chain = _extended(found, index, step.node)
        if sum(_count(steps[each].node) for each in chain.steps) > _MOST:
            end = _end(chain, steps, tensor)
            split.add(chain.steps[end])
            (start,) = result_ids(steps[chain.steps[end]].node)
            rest = _Chain(start, (), frozenset({start}))
            for each in chain.steps[end + 1 :]:
                rest = _extended(rest, each, steps[each].node)
            chain = rest
        (result,) = result_ids(step.node)
        chains[result] = chain
    return [each for index, step in enumerate(steps) for each in _moved(step, index in split, tensor, like)]


def _chain(
    node: schema.NodeT,
    chains: Mapping[int, _Chain],
    readers: Mapping[int, int],
    tensor: Callable[[int], schema.TensorT],
) -> _Chain | None:
    """Returns the chain to which an operation belongs, up to its operand; None if it is in none."""
    operands = operand_ids(node)
    if node.operationType not in (*UNARY, *BINARY):
        return None
    variable = [id for id in operands if not is_scalar(tensor(id))]
    for id in variable:
        chain = chains.get(id)
        if chain is not None and readers[id] == 1 and chain.values.issuperset(variable):
            return chain
    if len(variable) != 1 or tensor(variable[0]).constantId or tensor(variable[0]).dataType not in QUANTIZED:
        return None
    return _Chain(variable[0], (), frozenset(operands))


def _extended(chain: _Chain, index: int, node: schema.NodeT) -> _Chain:
    values = chain.values.union(operand_ids(node), result_ids(node))
    is_binary = chain.is_binary or node.operationType in BINARY
    return replace(chain, steps=(*chain.steps, index), values=values, is_binary=is_binary)


def _ends_before(
    node: schema.NodeT, first: Sequence[int], chains: Mapping[int, _Chain], readers: Mapping[int, int]
) -> list[int]:
    """Returns the last operation of a chain that would go on with one that reads the first input."""
    operands = set(operand_ids(node))
    if node.operationType not in BINARY or not operands.intersection(first):
        return []
    found = [chains[id] for id in operands if id in chains and readers[id] == 1]
    return [
        each.steps[-1] for each in found if each.is_binary and each.values.issuperset(operands - {*first})
    ]


def _count(node: schema.NodeT) -> int:
    """Returns the number of operations: the runtime has one more for the limits of a binary operation."""
    return 2 if node.operationType in BINARY and node.limits is not None else 1


def _end(chain: _Chain, steps: Sequence[Step], tensor: Callable[[int], schema.TensorT]) -> int:
    """Returns the position after which to split a chain: a table ends with a quantized value."""
    positions = range(len(chain.steps) - 1)
    found = [
        position
        for position in positions
        if tensor(result_ids(steps[chain.steps[position]].node)[0]).dataType in QUANTIZED
    ]
    return max(found or positions)


def is_scalar(tensor: schema.TensorT) -> bool:
    """Whether a tensor is a constant of one element."""
    return bool(tensor.constantId) and math.prod(tensor.dims) == 1


def _moved(
    step: Step,
    is_split: bool,
    tensor: Callable[[int], schema.TensorT],
    like: Callable[[int], int],
) -> list[Step]:
    if not is_split:
        return [step]
    table: Any = step.node.operation
    result, table.outputId = table.outputId, like(table.outputId)
    rank = len(tensor(result).dims)
    if rank == 0:
        reshape = schema.ReshapeT(0, [], table.outputId, result, 0)
        return [step, replace(step, node=schema.NodeT(Operation.Reshape, reshape))]
    transpose = schema.TransposeT(rank, [*range(rank)], table.outputId, result, 0)
    return [step, replace(step, node=schema.NodeT(Operation.Transpose, transpose))]
