# SPDX-License-Identifier: Apache-2.0
"""The graph in a delegate's blob, independent of the format, for texts and drawings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property


class Family(Enum):
    """A kind of operations, with its own color in drawings."""

    COMPUTE = "products and convolutions"
    ARITHMETIC = "arithmetic"
    ACTIVATION = "activations"
    NORMALIZE = "normalization"
    REDUCE = "reductions and pooling"
    INDEX = "indexing"
    MOVE = "moves"
    CONVERT = "conversions and fills"


@dataclass(frozen=True)
class BlobValue:
    """A value of the graph.

    Attributes:
        dtype: short, such as "f16", "i64" or "bool".
        shape: sizes.
        bytes: size of a constant's data; 0 for other values.
        literal: a constant of one element as text, such as "0.5"; empty for others.
        note: on its storage, such as "at 32".
        placement: where it is stored, for tools: property -> value.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int = 0
    literal: str = ""
    note: str = ""
    placement: Mapping[str, int | str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Returns dtype and shape, such as `f16[1, 197, 768]`."""
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class BlobNode:
    """An operation.

    Attributes:
        identifier: as in the delegate's debug map.
        operation: its name in the format.
        family: its kind.
        operands: role -> id for each operand, in order; the role is empty if the position implies it.
        results: ids of its results, in order.
        attributes: name -> text; defaults are omitted.
    """

    identifier: int | str
    operation: str
    family: Family
    operands: tuple[tuple[str, int], ...]
    results: tuple[int, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BlobGraph:
    """A graph.

    Attributes:
        title: its kind, such as "MPSGraph".
        nodes: its operations, in execution order.
        values: id -> value.
        inputs: ids of inputs, in order.
        outputs: ids of outputs, in order.
        constants: ids of constants, in order.
        notes: sentences on the graph as a whole.
        totals: integers in them, for tools: name -> integer.
        bodies: name -> graph, for each graph that an operation of this one or of another body runs; such
            operations name them in their attributes. Ids and identifiers are unique in all of them.
    """

    title: str
    nodes: tuple[BlobNode, ...]
    values: Mapping[int, BlobValue]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...]
    notes: tuple[str, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    bodies: Mapping[str, BlobGraph] = field(default_factory=dict)

    def walk(self) -> tuple[BlobGraph, ...]:
        """Returns this graph and its bodies."""
        return (self, *self.bodies.values())

    @cached_property
    def dead(self) -> frozenset[int | str]:
        """Identifiers of operations that no output depends on."""
        needed = set(self.outputs)
        found: set[int | str] = set()
        for node in reversed(self.nodes):
            if needed.isdisjoint(node.results):
                found.add(node.identifier)
            else:
                needed.update(id for _, id in node.operands)
        return frozenset(found)


@dataclass(frozen=True)
class BlobLabels:
    """Labels that the compiler knows and the blob does not contain.

    Attributes:
        names: id of a constant -> its fully qualified name in the model.
        modules: identifier of an operation, as text -> path of the module that it comes from.
        lines: identifier of an operation, as text -> the user's line.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
