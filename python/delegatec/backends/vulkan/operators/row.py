# SPDX-License-Identifier: Apache-2.0
"""Rows of the operator table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common import row
from delegatec.backends.common.row import overload
from delegatec.backends.common.sizes import is_computable
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.memory.demands import (
    Demands,
    Group,
    IsConstant,
    shapes_of,
    tied,
    within,
)
from delegatec.backends.vulkan.memory.representation import MOST_TEXTURE_DIMENSIONS, Limits, extents, fits
from delegatec.backends.vulkan.memory.sizes import has_dynamic_size
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.symbols import is_scalar

Constraint: TypeAlias = constraint.Constraint[Settings]
_TIED: Final = tied()
Lower = Callable[[GraphBuilder, Node], None]


@dataclass(frozen=True)
class OperatorRow(row.OperatorRow[GraphBuilder, Settings]):
    """A row, with the memory requirements of the runtime's operator.

    Attributes:
        demands: returns the groups of a call.
    """

    demands: Demands = _TIED


def operator_row(
    name: str | OpOverload,
    demands: Demands,
    dtypes: Collection[torch.dtype],
    *constraints: Constraint,
    lower: Lower | None = None,
    computes: bool = True,
    note: str = "",
    preserved: bool = False,
    known: tuple[constraint.Constraint[Facts], ...] = (),
    resizes: Sequence[Constraint] | None = None,
) -> OperatorRow:
    """Returns a row.

    Args:
        name: of the overload in ATen, or another overload.
        demands: on memory.
        dtypes: of the operands.
        *constraints: of this row, besides.
        lower: its lowering, by default the operator of the same name with the arguments of its schema.
        computes: whether it does more than move data.
        note: a remark for the operator table of the docs.
        preserved: whether it must not be decomposed before partitioning.
        known: facts that must be known about its operands.
        resizes: constraints on calls with dynamic sizes; by default they are illegal.
    """
    target = overload(name) if isinstance(name, str) else name
    fixed: tuple[Constraint, ...] = (
        *((STATIC,) if resizes is None else resizes),
        operand_dtypes(dtypes, "the runtime has no shaders for others."),
        *constraints,
    )
    return OperatorRow(
        target,
        lower or same_call(str(target)),
        (*fixed, _storable(demands)),
        computes,
        note,
        preserved,
        known,
        demands=demands,
    )


def resizing(doc: str, broken: Callable[[Node], str | None]) -> Constraint:
    """Returns a constraint on calls with dynamic sizes."""
    return constraint.Constraint(
        "dynamic-shape", doc, lambda node, _: broken(node) if has_dynamic_size(node) else None, _STATIC_HELP
    )


_STATIC_HELP: Final = "make the size a constant of the model"
STATIC: Final = resizing(
    "Sizes are static: the runtime does not resize the results.", lambda node: "has a dynamic shape"
)


def _uncomputable(node: Node) -> str | None:
    shape = node.meta["val"].shape
    return None if all(map(is_computable, shape)) else f"has the shape {[str(size) for size in shape]}"


SHAPED: Final = resizing(
    "Sizes are sums, products and quotients of others: the runtime does not compute other functions.",
    _uncomputable,
)


def _computed_scalar(node: Node, _: object) -> str | None:
    scalars = [each for each in bind(node).values() if isinstance(each, Node) and is_scalar(each)]
    return f"the computed scalar {scalars[0].meta['val']}" if scalars else None


KNOWN_SCALARS: Final = Constraint(
    "argument", "Scalars are constants: the runtime accepts computed ones as sizes only.", _computed_scalar
)


def constants(*names: str) -> constraint.Constraint[Facts]:
    """Requires that arguments are constants, or absent."""

    def broken(node: Node, facts: Facts) -> str | None:
        bound = bind(node)
        bad = [name for name in names if bound[name] is not None and facts.constant(bound[name]) is None]
        return f"{bad[0]} is not a constant" if bad else None

    listed = " and ".join(names)
    return constraint.Constraint("constant", f"The runtime packs {listed} before the first run.", broken)


def same_call(name: str, *arguments: str) -> Lower:
    """Returns the lowering to a call of the runtime's operator of a name.

    Args:
        name: in the runtime's registry.
        *arguments: their names in the schema of the ATen operator; by default all, in its order.
    """

    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        ids = [b.argument(bound[each]) for each in arguments or bound]
        b.call(name, *ids, b.result(node))

    return lower


def storable(node: Node, demands: Demands, settings: Settings, is_constant: IsConstant) -> Sequence[Group]:
    """Returns the groups of a call with the representations that have room for its tensors."""
    return list(within(demands(node, is_constant), node, settings.limits))


def _storable(demands: Demands) -> Constraint:
    def broken(node: Node, settings: Settings) -> str | None:
        groups = demands(node, lambda _: False)
        for group, fitting in zip(groups, within(groups, node, settings.limits), strict=True):
            if not fitting.allowed:
                return _misfit(node, group, settings.limits)
        return None

    return constraint.Constraint(
        "storage",
        "Operands and results fit a buffer or a texture that the operator supports.",
        broken,
    )


def _misfit(node: Node, group: Group, limits: Limits) -> str:
    """Returns why no representation of a group holds all its tensors."""
    for shape in shapes_of(group, node):
        texture = next((each for each in group.allowed if each.is_texture), None)
        if texture is None or any(fits(shape, each, limits) for each in group.allowed):
            continue
        if len(shape) > MOST_TEXTURE_DIMENSIONS:
            return f"a texture of shape {list(shape)} has more than {MOST_TEXTURE_DIMENSIONS} dimensions"
        width, height, depth = extents(shape, texture)
        return (
            f"a texture of shape {list(shape)} has {width} x {height} x {depth} texels, "
            f"more than {limits.width} x {limits.height} x {limits.depth}"
        )
    return f"operands of shapes {', '.join(str(list(shape)) for shape in shapes_of(group, node))}"
