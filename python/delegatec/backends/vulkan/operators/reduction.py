# SPDX-License-Identifier: Apache-2.0
"""Reductions of one or two dimensions of a texture, and positions of extremes in rows of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import (
    BUFFER,
    PACKED_AXIS,
    TEXTURES,
    Representation,
)
from delegatec.backends.vulkan.memory.sizes import has_dynamic_size, shape_of
from delegatec.backends.vulkan.memory.workgroups import reduces_safely
from delegatec.backends.vulkan.operators.row import Constraint, OperatorRow, operator_row
from delegatec.edge.arguments import bind, positive
from delegatec.edge.legalize.constraints import HAS_AXIS, OWN_DTYPE, result_dtypes
from delegatec.edge.legalize.rules.reductions import reduced_dims


def _memory(node: Node, _: IsConstant) -> Sequence[Group]:
    bound, dims = bind(node), reduced_dims(node)
    shape = shape_of(bound["self"])
    # Not in buffers: their shader clamps results, including infinities, to the finite range of float16.
    allowed: set[Representation] = set()
    if len(shape) <= 4 and bound["keepdim"]:
        axes = [len(shape) - 1 - dim for dim in dims]
        allowed |= {
            each
            for each in TEXTURES
            if reduces_safely(shape, dims, each)
            and (not has_dynamic_size(node) if len(dims) == 1 else PACKED_AXIS[each] not in axes)
        }
    return (Group(frozenset(allowed), (bound["self"],), (0,)),)


def _reduce(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    args = [b.of(bound["self"]), b.integers(reduced_dims(node)), b.scalar(bool(bound["keepdim"]))]
    if "dtype" in bound:
        args.append(b.null())
    b.call(str(node.target), *args, b.result(node))


def _many(node: Node, _: object) -> str | None:
    dims = reduced_dims(node)
    return f"{len(dims)} dimensions" if len(dims) > 2 else None


def _last(node: Node, _: object) -> str | None:
    bound = bind(node)
    rank = len(shape_of(bound["self"]))
    if bound["dim"] is None:
        return None if rank == 1 else "the dimensions are joined"
    return None if positive(bound["dim"], rank) == rank - 1 else f"dimension {bound['dim']}"


def _argument(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = b.scalar(len(shape_of(bound["self"])) - 1)
    args = (b.of(bound["self"]), dim, b.scalar(bool(bound["keepdim"])), b.result(node))
    b.call(str(node.target), *args)


ROWS: Final[tuple[OperatorRow, ...]] = (
    *(
        operator_row(
            name,
            _memory,
            FLOATS,
            HAS_AXIS,
            result_dtypes(FLOATS, "the runtime reduces floating point only."),
            OWN_DTYPE,
            Constraint("argument", "At most two dimensions are reduced.", _many),
            lower=_reduce,
            resizes=(),
        )
        for name in ("mean.dim", "sum.dim_IntList", "amax", "amin")
    ),
    *(
        operator_row(
            name,
            tied(BUFFER),
            FLOATS,
            HAS_AXIS,
            Constraint("argument", "The last dimension is searched.", _last),
            lower=_argument,
            resizes=(),
        )
        for name in ("argmax", "argmin")
    ),
)
