# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes as integers, so that layouts, which split and merge dimensions, do not depend on symbols.

A size is a product of integers and of expressions that are not products. Each of these expressions becomes a
prime that divides no size of the program: so equal sizes are equal integers, and the factors of a size show
which others it is merged from, or which one it is a part of.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import sympy
import torch
from torch.fx import Node

from delegatec.edge.arguments import operand_nodes, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

# Small enough for products of six sizes, and costs like those of real images.
_FIRST: Final = 211
_SIZED: Final = (aten.view.default, aten.expand.default, aten.full.default)
"""Calls of which an argument, the only list, is the shape of the result."""


class SymbolicSizes:
    """The symbolic sizes of a program.

    Args:
        program: its values have symbolic sizes.
    """

    def __init__(self, program: EdgeProgram) -> None:
        self._builder = Builder(program)
        self._graph = program.graph
        self._true: dict[Node, torch.Tensor] = {}
        self._primes: dict[Any, int] = {}
        self._known: dict[int, torch.SymInt] = {}
        self._environment: Any = None
        sizes = [size for node in self._graph.nodes for size in _sizes(node)]
        given = {size for size in sizes if isinstance(size, int)}
        for size in sizes:
            if isinstance(size, torch.SymInt):
                self._environment = size.node.shape_env
                given.update(int(each) for each in _factors(size) if each.is_Integer)
        self._free = (each for each in _primes() if all(size % each or size == 0 for size in given))

    def encode(self) -> bool:
        """Makes all sizes integers; returns whether they are consistent: the program is not edited if not."""
        for node in self._graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                self._true[node] = value
                node.meta["val"] = self._builder.empty([*map(self._encoded, value.shape)], value.dtype)
        if all(map(_is_consistent, self._graph.nodes)):
            return True
        self.decode()
        return False

    def decode(self) -> None:
        """Restores symbolic sizes, also those of nodes that were added, and of their arguments."""
        for node in self._graph.nodes:
            value = node.meta.get("val")
            if node in self._true:
                node.meta["val"] = self._true[node]
            elif isinstance(value, torch.Tensor):
                sizes = [*map(self._size, value.shape)]
                node.meta["val"] = self._builder.empty(sizes, value.dtype)
                # not compared: that would be a guard
                if node.target in _SIZED and is_dynamic(sizes):
                    node.args = tuple(
                        [self._argument(node, size) for size in each]
                        if isinstance(each, (list, tuple))
                        else each
                        for each in node.args
                    )
        self._true.clear()

    def _encoded(self, size: int | torch.SymInt) -> int:
        if not isinstance(size, torch.SymInt):
            return size
        encoded = math.prod(self._prime(each) for each in _factors(size))
        self._known.setdefault(encoded, size)
        return encoded

    def _prime(self, factor: Any) -> int:
        if factor.is_Integer:
            return int(factor)
        if factor not in self._primes:
            self._primes[factor] = next(self._free)
        return self._primes[factor]

    def _size(self, encoded: int | torch.SymInt) -> int | torch.SymInt:
        if isinstance(encoded, torch.SymInt):
            return encoded
        if encoded not in self._known:
            rest, found = encoded, sympy.Integer(1)
            for factor, prime in self._primes.items():
                while rest % prime == 0:
                    rest //= prime
                    found = found * factor
            if rest == encoded:
                return encoded
            self._known[encoded] = self._environment.create_symintnode(found * rest, hint=None)
        return self._known[encoded]

    def _argument(self, node: Node, value: Any) -> Any:
        size = self._size(value) if type(value) is int else value
        return self._builder.at(node).scalar(size) if isinstance(size, torch.SymInt) else size


def _sizes(node: Node) -> Iterable[Any]:
    value = node.meta.get("val")
    return value.shape if isinstance(value, torch.Tensor) else ()


def _factors(size: torch.SymInt) -> tuple[Any, ...]:
    """Returns the factors of a size: positive integers, and expressions that are not products."""
    return _factors_of(size.node.expr)


@functools.lru_cache(4096)
def _factors_of(expression: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    pending = [sympy.factor(expression)]
    while pending:
        each = pending.pop()
        if each.is_Mul:
            pending += each.args
        elif each.is_Pow and each.exp.is_Integer and each.exp > 0:
            pending += [each.base] * int(each.exp)
        else:
            found.append(each)
    if any(each.is_Integer and each < 0 for each in found):  # of 8 - 2 * s, -2 and s - 4
        (*numbers, other) = sorted(found, key=lambda each: not each.is_Integer)
        return *(abs(each) if each.is_Integer else each for each in numbers), -other
    return tuple(found)


def _primes() -> Iterator[int]:
    for encoded in itertools.count(_FIRST):
        if all(encoded % each for each in range(2, math.isqrt(encoded) + 1)):
            yield encoded


def _is_consistent(node: Node) -> bool:
    """Whether integers relate the sizes of operands and result as the call requires."""
    if node.target is aten.view.default:
        (source, *_) = node.all_input_nodes
        return math.prod(shape_of(source)) == math.prod(shape_of(node))
    if torch.Tag.pointwise in getattr(node.target, "tags", ()):
        shapes = [*map(shape_of, operand_nodes(node))]
        joint = zip(*(reversed(shape) for shape in shapes), strict=False) if len(shapes) > 1 else ()
        return all(len(set(sizes) - {1}) < 2 for sizes in joint)
    return True
