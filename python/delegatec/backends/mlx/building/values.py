# SPDX-License-Identifier: Apache-2.0
"""Values of a graph under construction, and operands of its operations that may be literals or values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Node

from delegatec.backends.mlx.operands import RESULTS


@dataclass(frozen=True, eq=False)
class Array:
    """A tensor, which gets a slot when the graph is finished.

    Attributes:
        dtype: its dtype.
        shape: its sizes; symbolic ones are computed by other values.
    """

    dtype: torch.dtype
    shape: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Scalar:
    """An integer that is computed in each run."""


@dataclass(frozen=True)
class Int:
    """An operand that is an integer: a literal or a value."""

    value: int | Scalar


@dataclass(frozen=True)
class Float:
    """An operand that is a number: a literal or a value."""

    value: float | Scalar


@dataclass(frozen=True)
class Index:
    """An operand that is an index: a literal, a value, or a tensor of indices."""

    value: int | Scalar | Array


@dataclass(frozen=True)
class Position:
    """An operand that is a position: a value, or a tensor of positions."""

    value: Scalar | Array


Value = Array | Scalar


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes:
        name: its member of the format's union of nodes.
        fields: name -> values, wrapped values, numbers, texts, and lists of these.
        origin: the node of the program that it computes, if any.
    """

    name: str
    fields: dict[str, Any]
    origin: Node | None = None

    def results(self) -> Iterator[Value]:
        """Yields the values that it or one of its chains writes."""
        yield from self.own_results()
        for chain in self.chains():
            for each in chain.operations:
                yield from each.results()

    def operands(self) -> Iterator[Value]:
        """Yields the values that it or one of its chains reads."""
        for name, content in self.fields.items():
            if name not in RESULTS:
                yield from _values(content)
        for chain in self.chains():
            for each in chain.operations:
                yield from each.operands()

    def own_results(self) -> Iterator[Value]:
        """Yields the values in its fields that it writes."""
        for name, content in self.fields.items():
            if name in RESULTS or name == "carry":
                yield from _values(content)

    def replace(self, old: Value, new: Value) -> None:
        """Replaces a value in its fields."""
        for name, content in self.fields.items():
            self.fields[name] = _replaced(content, old, new)

    def own_values(self) -> set[Value]:
        """Returns the values in its fields."""
        return {value for content in self.fields.values() for value in _values(content)}

    def chains(self) -> Iterator[Chain]:
        """Yields the chains that it runs."""
        for content in self.fields.values():
            if isinstance(content, Chain):
                yield content


@dataclass(eq=False)
class Chain:
    """Operations that run in order.

    Attributes:
        operations: the operations.
    """

    operations: list[Operation] = field(default_factory=list)

    def walk(self) -> Iterator[Chain]:
        """Yields this chain, and those that its operations run."""
        pending = [self]
        while pending:
            chain = pending.pop(0)
            yield chain
            pending += [each for operation in chain.operations for each in operation.chains()]

    def replace(self, old: Value, new: Value) -> None:
        """Replaces a value in all of them."""
        for chain in self.walk():
            for operation in chain.operations:
                operation.replace(old, new)


def _values(content: Any) -> Iterator[Value]:
    if isinstance(content, (Array, Scalar)):
        yield content
    elif isinstance(content, (Int, Float, Index, Position)):
        yield from _values(content.value)
    elif isinstance(content, (list, tuple)):
        for each in content:
            yield from _values(each)


def _replaced(content: Any, old: Value, new: Value) -> Any:
    if content is old:
        return new
    if isinstance(content, (Int, Float, Index, Position)):
        return replace(content, value=_replaced(content.value, old, new))
    if isinstance(content, list):
        return [_replaced(each, old, new) for each in content]
    return content
