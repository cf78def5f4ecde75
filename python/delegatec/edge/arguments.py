# SPDX-License-Identifier: Apache-2.0
"""Arguments and values of calls."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true


def bind(node: Node) -> dict[str, Any]:
    """Returns all arguments of the call `node` by their names in the operator's schema, in its order."""
    assert isinstance(node.target, OpOverload)
    names, defaults = _parameters(node.target)
    return {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}


def defaults_of(operator: OpOverload) -> dict[str, Any]:
    """Returns the defaults of an operator's arguments by name; None for those that have none."""
    return _parameters(operator)[1]


@cache
def _parameters(operator: OpOverload) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the names of positional arguments, and the defaults of all arguments."""
    arguments = operator._schema.arguments
    return tuple(each.name for each in arguments if not each.kwarg_only), {
        each.name: each.default_value if each.has_default_value() else None for each in arguments
    }


def writes(node: Node) -> bool:
    """Whether `node` calls an operator that writes to an argument."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def shape_of(node: Node) -> tuple[int, ...]:
    """Returns the sizes of a node's value, all static."""
    return tuple(node.meta["val"].shape)


def dtype_of(node: Node) -> torch.dtype:
    """Returns the dtype of a node's value."""
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype


def bytes_of(val: torch.Tensor) -> Any:
    """Returns the number of bytes of a tensor; an expression if a size of it is dynamic."""
    # `nbytes` raises if the offset in a storage is symbolic
    return math.prod(val.shape) * val.dtype.itemsize


def short_name(dtype: torch.dtype) -> str:
    """Returns the name of a dtype without the module, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def tensors(val: Any) -> list[torch.Tensor]:
    """Returns the tensors in a node's value."""
    if isinstance(val, torch.Tensor):
        return [val]
    if isinstance(val, (tuple, list)):
        return [t for item in val for t in tensors(item)]
    return []


def operand_nodes(node: Node) -> list[Node]:
    """Returns the operands of a node that are tensors."""
    return [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]


def read_results(node: Node) -> list[int]:
    """Returns the indices of the results that are read, for a node with several."""
    return sorted({user.args[1] for user in node.users if isinstance(user.args[1], int)})


def values_of(node: Node) -> list[torch.Tensor]:
    """Returns the operands of a node, its first result and the other results that are read."""
    results = node.meta.get("val")
    if isinstance(results, (tuple, list)):
        results = [results[index] for index in sorted({0, *read_results(node)})]
    found: list[torch.Tensor] = []
    for val in (*[n.meta.get("val") for n in node.all_input_nodes], results):
        if isinstance(val, torch.Tensor):
            found.append(val)
        else:
            found += tensors(val)
    return found


def positive(dim: int, rank: int) -> int:
    """Returns a dimension counted from the front."""
    return dim + rank if dim < 0 else dim


def promoted(operands: Sequence[Any]) -> torch.dtype:
    """Returns the dtype that torch promotes operands to, nodes and scalars."""
    values = [o.meta["val"] if isinstance(o, Node) else o for o in operands]
    return torch.result_type(values[0], values[-1])


def each(values: Sequence[Any] | Any, count: int, default: Sequence[Any] = ()) -> list[Any]:
    """Returns an integer per dimension: a single one applies to all; `default` replaces an absent one."""
    chosen = list(values) if isinstance(values, (tuple, list)) else [] if values is None else [values]
    chosen = chosen or list(default)
    return chosen * count if len(chosen) == 1 else chosen


def broadcast(*shapes: Any) -> tuple[Any, ...]:
    """Returns the shape that several shapes broadcast to; sizes may be symbolic."""
    first, *others = sizes = [*map(tuple, shapes)]
    if not all(type(size) is int for shape in sizes for size in shape):
        return _symbolic_broadcast(sizes)
    return first if all(first == other for other in others) else _static_broadcast(*sizes)


def _symbolic_broadcast(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Returns the joint shape; torch's function compares dynamic sizes, which narrows their ranges."""
    aligned = itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return tuple(functools.reduce(_joint, sizes) for sizes in aligned)[::-1]


def _joint(size: Any, other: Any) -> Any:
    """Returns the size that two sizes broadcast to; sizes that are not known to be equal are, or one is 1."""
    if statically_known_true(other == 1) or statically_known_true(size == other):
        return size
    return other if statically_known_true(size == 1) or isinstance(other, int) else size


@lru_cache(1 << 12)  # torch's function takes a tenth of a millisecond
def _static_broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
