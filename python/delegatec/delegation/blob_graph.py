# SPDX-License-Identifier: Apache-2.0
"""The graph in a delegate's blob, in a form that texts and pictures are made of, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property


class Family(Enum):
    """What sort of work an operation does; pictures give each a colour."""

    COMPUTE = "products and convolutions"
    ARITHMETIC = "arithmetic"
    ACTIVATION = "activations"
    NORMALISE = "normalisation"
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
        bytes: size of a constant's data; 0 for what is computed or passed.
        literal: a constant of one element as text, such as "0.5"; empty for others.
        note: what a reader should know of where it lies, such as "at 32".
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int = 0
    literal: str = ""
    note: str = ""

    def __str__(self) -> str:
        """Such as `f16[1, 197, 768]`."""
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class BlobNode:
    """An operation.

    Attributes:
        identifier: as in the delegate's debug map.
        operation: as the format calls it.
        family: what sort of work it does.
        reads: role -> id for each operand, in order; the role is empty where the place says it.
        gives: ids of its results, in order.
        attributes: name -> text, of those that matter; neutral ones are left out.
    """

    identifier: int | str
    operation: str
    family: Family
    reads: tuple[tuple[str, int], ...]
    gives: tuple[int, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BlobGraph:
    """A graph.

    Attributes:
        title: what it is, such as "MPSGraph".
        nodes: its operations, in the order in which they run.
        values: id -> value.
        inputs: ids of what is passed, in order.
        outputs: ids of what is returned, in order.
        constants: ids of constants, in order.
        notes: sentences on the whole that a reader should know.
    """

    title: str
    nodes: tuple[BlobNode, ...]
    values: Mapping[int, BlobValue]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def unread(self) -> frozenset[int | str]:
        """Identifiers of operations whose results neither the outputs nor what they come of need."""
        needed = set(self.outputs)
        found: set[int | str] = set()
        for node in reversed(self.nodes):
            if needed.isdisjoint(node.gives):
                found.add(node.identifier)
            else:
                needed.update(id for _, id in node.reads)
        return frozenset(found)


@dataclass(frozen=True)
class BlobLabels:
    """What a blob does not say of itself, and the compiler knows.

    Attributes:
        names: id of a constant -> its fully qualified name in the model.
        modules: identifier of an operation, as text -> path of the module that it comes of.
        lines: identifier of an operation, as text -> the user's line.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
