# SPDX-License-Identifier: Apache-2.0
"""Calls on constants alone, and which of them to compute when the program is lowered.

A call is computed early, in lowering, or late, in every run of the program. The operands of an early call are
early. Early results that late calls read are stored in the file, and constants that only early calls read
leave it. So the decision is about whole subgraphs: a minimum cut between bytes of the file and time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.analysis.minimum_cut import INFINITE, Network
from delegatec.edge.analysis.transparent import overloads
from delegatec.edge.arguments import bytes_of, shape_of
from delegatec.edge.program import EdgeProgram

SMALL: Final = 64 * 1024
"""Storing a result of up to this many bytes costs nothing."""

# Costs. The unit is 1/16 of a stored byte, which costs as much as half a nanosecond in each run. So an
# elementwise call costs half as much as storing its result.
_BYTE: Final = 16
_PER_BYTE: Final = 8
# Gathers of single elements are as slow as a dozen elementwise calls.
_PER_BYTE_FOUND: Final = 96
# Products: for each byte of the result and each element that is summed.
_PER_BYTE_AND_TERM: Final = 1

# A result may have this many times the bytes of the constants that its gather reads, such as a table of
# relative positions.
_GATHER_GROWTH: Final = 64
# Larger results than this are not even computed if they are larger than the constants that they come from.
_LARGEST_GROWN: Final = 64 << 20

# Elements that are moved, repeated, converted, or all the same: as small as their operands, and often free.
_MOVES: Final = frozenset(
    {
        operator.getitem,
        *overloads("""_to_copy alias arange arange.start arange.start_step as_strided cat clone
            constant_pad_nd contiguous detach diagonal diagonal_copy expand flip full full_like
            lift_fresh_copy new_full permute repeat reshape roll scalar_tensor select.int slice.Tensor
            split.Tensor split_with_sizes squeeze squeeze.dim squeeze.dims stack transpose.int unbind.int
            unfold unsqueeze view"""),
    }
)
_GATHERS: Final = frozenset(overloads("gather index.Tensor"))
# Operators of products -> the argument and the dimensions of which each element is a term of a sum.
_PRODUCTS: Final[Mapping[Any, tuple[int, slice]]] = {
    **dict.fromkeys(overloads("bmm mm mv linear dot"), (0, slice(-1, None))),
    **dict.fromkeys(overloads("addmm addmv baddbmm"), (1, slice(-1, None))),
    **dict.fromkeys(overloads("convolution"), (1, slice(1, None))),
}
# Delegates and kernels prepare constant weights when they load them; few delegates accept others.
_LAYERS: Final = frozenset(overloads("addmm baddbmm bmm convolution embedding linear mm"))
_FACTORIZATIONS: Final = frozenset({"cholesky", "geqrf", "lu_unpack", "ormqr", "triangular_solve"})


def constant_calls(program: EdgeProgram, is_foldable: Callable[[Node], bool]) -> list[Node]:
    """Returns the calls that depend on constants alone, in order, with the `getitem` nodes of their results.

    Args:
        program: not modified.
        is_foldable: whether a call can be computed in lowering, given its operands.
    """
    fixed = program.fixed_constants()
    known = {node for node in program.placeholders() if node.name in fixed}
    found: list[Node] = []
    for node in program.graph.nodes:
        if node.op != "call_function" or not all(operand in known for operand in node.all_input_nodes):
            continue
        if is_foldable(node) if node.target is not operator.getitem else node.args[0] in known:
            found.append(node)
            known.add(node)
    return found


def early_calls(program: EdgeProgram, calls: Collection[Node]) -> set[Node]:
    """Returns the calls to compute in lowering: those of least cost, and of these the fewest.

    Args:
        program: not modified.
        calls: the result of `constant_calls`.
    """
    costs = _Costs(program, calls)
    return _Cut(program, [node for node in calls if costs.add(node)], costs).early()


def _weights(program: EdgeProgram, calls: Collection[Node]) -> set[Node]:
    """Returns the calls that compute the elements of weights of layers, which are moved at most."""
    inside = set(calls)
    layers = [node for node in program.graph.nodes if node.target in _LAYERS and node not in inside]
    stack = [operand for layer in layers for operand in layer.all_input_nodes]
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in inside and node not in found:
            found.add(node)
            if node.target in _MOVES:
                stack += node.all_input_nodes
    return found


class _Costs:
    """Costs of calls on constants."""

    def __init__(self, program: EdgeProgram, calls: Collection[Node]) -> None:
        self._constants = program.constants
        self._weights = _weights(program, calls)
        self._sources: dict[Node, frozenset[str]] = {}

    def add(self, node: Node) -> bool:
        """Returns whether a call can be early; its operands were added before."""
        operands = node.all_input_nodes
        if any(operand.op == "call_function" and operand not in self._sources for operand in operands):
            return False
        sources: set[str] = set()
        for operand in operands:
            sources |= self._sources.get(operand, {operand.name})
        size = _bytes(node)
        if size > max(_LARGEST_GROWN, self._total(sources)):
            return False
        self._sources[node] = frozenset(sources)
        return True

    def _total(self, names: Collection[str]) -> int:
        return sum(self._constants[name].nbytes for name in names)

    def late(self, node: Node) -> int:
        """Returns the cost of a call in each run of the program."""
        if isinstance(node.target, OpOverload) and _is_factorization(node.target):
            return INFINITE
        size = _bytes(node)
        if node.target in _MOVES:
            return 1 if size <= SMALL else 0
        source = self._total(self._sources[node])
        if node.target in _GATHERS:
            return size * _PER_BYTE_FOUND if size <= _GATHER_GROWTH * source else 1
        if node.target in _PRODUCTS:
            position, dimensions = _PRODUCTS[node.target]
            factor: Any = node.args[position]
            terms = math.prod(shape_of(factor)[dimensions])
            return 1 + size * _PER_BYTE_AND_TERM * terms
        work = max([size, *map(_bytes, node.all_input_nodes)])
        # More than the source, such as a product of a row and a column, or values of a wider dtype than those
        # stored.
        if work > source:
            return 1
        return 1 + _PER_BYTE * work + (_BYTE * size if node in self._weights else 0)


def _is_factorization(target: OpOverload) -> bool:
    """Whether neither the runtime nor a delegate computes the call."""
    return "linalg_" in target._opname or target._opname in _FACTORIZATIONS


class _Cut:
    """The minimum cut: late calls are on the side of the source, early ones on that of the sink."""

    def __init__(self, program: EdgeProgram, calls: Collection[Node], costs: _Costs) -> None:
        self._network = network = Network()
        self._nodes = {node: network.node() for node in calls}
        for node, vertex in self._nodes.items():
            network.edge(vertex, network.sink, costs.late(node))
            for operand in node.all_input_nodes:
                if operand in self._nodes:
                    network.edge(self._nodes[operand], vertex, INFINITE)
            stored = INFINITE if isinstance(node.meta["val"], (tuple, list)) else _storage(_bytes(node))
            self._store([node], vertex, stored)
        tied: dict[int, list[Node]] = {}
        for node in program.placeholders():
            if node.name in program.constants:
                tied.setdefault(program.constants[node.name].data_ptr(), []).append(node)
        for several in tied.values():
            if any(user in self._nodes for node in several for user in node.users):
                size = max(program.constants[node.name].nbytes for node in several)
                self._store(several, network.sink, _BYTE * size)

    def _store(self, several: list[Node], vertex: int, cost: int) -> None:
        """Demands the cost of storing an early value, if any call that reads it is late."""
        network = self._network
        is_late = network.node()
        network.edge(is_late, vertex, cost)
        for user in dict.fromkeys(user for node in several for user in node.users):
            network.edge(self._nodes.get(user, network.source), is_late, INFINITE)

    def early(self) -> set[Node]:
        """Returns the early calls."""
        sides = self._network.sink_side()
        return {node for node, vertex in self._nodes.items() if sides[vertex]}


def _storage(size: int) -> int:
    return 0 if size <= SMALL else _BYTE * size


def _bytes(node: Node) -> int:
    """Returns the number of bytes of the results of a call, or of a constant."""
    val: Any = node.meta["val"]
    several: Any = val if isinstance(val, (tuple, list)) else (val,)
    tensors = [each for each in several if isinstance(each, torch.Tensor)]
    return sum(map(bytes_of, tensors))
