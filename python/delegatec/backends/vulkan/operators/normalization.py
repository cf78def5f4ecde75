# SPDX-License-Identifier: Apache-2.0
"""Normalization and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Group, IsConstant, first_operand
from delegatec.backends.vulkan.memory.representation import (
    BUFFER,
    CHANNELS,
    PACKED_AXIS,
    TEXTURES,
    WIDTH,
    Representation,
    extents,
)
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.memory.sizes import has_dynamic_size, shape_of
from delegatec.backends.vulkan.memory.workgroups import INVOCATIONS, MOST_WORKGROUPS, reduces_safely
from delegatec.backends.vulkan.operators.row import (
    Constraint,
    OperatorRow,
    constants,
    operator_row,
    resizing,
    same_call,
)
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, positive
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import HAS_AXIS, argument, rank_at_most, rank_of
from delegatec.edge.symbols import is_dynamic

_PARAMETERS: Final = constants("weight", "bias")


def _softmax_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    bound = bind(node)
    shape = shape_of(bound["self"])
    dim = positive(bound["dim"], len(shape))
    # Along an axis that is not packed, each invocation starts with its own texel, which may not exist.
    textures = {
        each
        for each in TEXTURES
        if len(shape) <= 4
        and not has_dynamic_size(node)
        and reduces_safely(shape, [dim], each)
        and (shape[dim] >= INVOCATIONS or PACKED_AXIS[each] == len(shape) - 1 - dim)
    }
    return (Group(BUFFER | textures, (bound["self"],), (0,)),)


def _reduced_depth(node: Node, _: object) -> str | None:
    shape = shape_of(node)
    if len(shape) < 4:
        return None
    dim = positive(bind(node)["dim"], 4)
    return f"over dimension {dim}" if dim == 0 or (dim == 1 and shape[0] > 1) else None


_NO_INFINITY: Final[constraint.Constraint[Facts]] = constraint.Constraint(
    "value",
    "No element of the operand is minus infinity: most shaders write zero for an infinite result.",
    lambda node, facts: None if facts.of(bind(node)["self"]).low > -math.inf else "an unknown lower bound",
)


def _softmax(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = b.scalar(positive(bound["dim"], len(shape_of(node))))
    b.call(str(node.target), b.of(bound["self"]), dim, b.scalar(False), b.result(node))


def _is_wrong_layer_norm(shape: Sequence[int]) -> bool:
    """Whether the shader's workgroup mixes rows: it is cut to 64 invocations along the wrong axis."""
    x, y, z = extents(shape, Representation.WIDTH)
    low, middle, high = sorted((x, y, z))
    return y == high > middle == 3 and low > 1


def _layer_norm_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    source = bind(node)["input"]
    shape = shape_of(source)
    allowed = BUFFER
    # the workgroup follows the sizes of a run, and long rows are right with all
    is_right = (
        extents(shape, Representation.WIDTH)[0] > 3
        if has_dynamic_size(node)
        else not _is_wrong_layer_norm(shape)
    )
    if len(shape) <= 4 and is_right:
        allowed |= WIDTH
    return (Group(allowed, (source,), (0, 1, 2)),)


def _given(*names: str) -> Constraint:
    def broken(node: Node, _: object) -> str | None:
        bound = bind(node)
        return next((f"{name} is absent" for name in names if bound[name] is None), None)

    return Constraint("argument", f"{' and '.join(names)} are given.", broken)


_AFFINE: Final = _given("weight", "bias")


def _too_many_rows(node: Node, _: object) -> str | None:
    rows = math.prod(shape_of(node)[:-1])
    return f"{rows} rows" if rows > MOST_WORKGROUPS else None


def _group_norm_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    return Group(CHANNELS, (bind(node)["x"],), (0,)), Group(BUFFER, (), (1, 2))


_ONE_BATCH: Final = resizing(
    "The batch size is static: the runtime dispatches the first of two shaders before it resizes its result.",
    lambda node: "a dynamic batch size" if is_dynamic(bind(node)["x"].meta["val"].shape[:1]) else None,
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    *(
        operator_row(
            name,
            _softmax_memory,
            FLOATS,
            HAS_AXIS,
            rank_at_most(4, "the shaders have four dimensions."),
            Constraint(
                "argument",
                "dim is not the batch, nor the channels of several images: they share an axis of textures.",
                _reduced_depth,
            ),
            lower=_softmax,
            known=(_NO_INFINITY,) if name == "_log_softmax" else (),
            resizes=(),
        )
        for name in ("_softmax", "_log_softmax")
    ),
    operator_row(
        "native_layer_norm",
        _layer_norm_memory,
        FLOATS,
        argument("normalized_shape", lambda value: len(value) == 1, "The last dimension is normalized."),
        _AFFINE,
        known=(_PARAMETERS,),
        resizes=(),
    ),
    operator_row(
        "rms_norm",
        first_operand(ROW_PACKED),
        FLOATS,
        argument("normalized_shape", lambda value: len(value) == 1, "The last dimension is normalized."),
        rank_at_most(4, "the shaders have four dimensions."),
        Constraint("shape", f"It has at most {MOST_WORKGROUPS} rows.", _too_many_rows),
        _given("weight", "eps"),
        lower=same_call("et_vk.rms_norm.default", "input", "weight", "eps"),
        preserved=True,
        known=(constants("weight"),),
        resizes=(),
    ),
    operator_row(
        RUNTIME.group_norm.default,
        _group_norm_memory,
        FLOATS,
        lower=same_call("aten.native_group_norm.default"),
        note="group norm of images whose mean is not large",
        known=(_PARAMETERS,),
        resizes=(_ONE_BATCH,),
    ),
    operator_row(
        "_native_batch_norm_legit_no_training",
        lambda node, _: (Group(CHANNELS, (bind(node)["input"],), (0, 1, 2)),),
        FLOATS,
        rank_of("input", (4,), "the runtime normalizes images."),
        _AFFINE,
        known=(constants("weight", "bias", "running_mean", "running_var"),),
        resizes=(),
    ),
)
