# SPDX-License-Identifier: Apache-2.0
"""Constraints that backends share. A backend supplies its limits and the reasons for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import (
    bind,
    dtype_of,
    each,
    operand_nodes,
    read_results,
    short_name,
    tensors,
    values_of,
)
from delegatec.edge.control_flow import FORMS, operands
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.symbols import is_scalar, largest, smallest_nonempty

# ---- for all rows of a table -----------------------------------------------------------------------------


_SCALARS: Final = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)


def static_shapes(why: str) -> Constraint[object]:
    """Requires that no operand or result is a symbolic scalar or has a symbolic size."""

    def broken(node: Node, _: object) -> str | None:
        for source in node.all_input_nodes:
            # a scalar is specialized if torch.export finds that its sizes are static
            if isinstance(source.meta.get("val"), _SCALARS):
                return f"the symbolic scalar {source.meta['val']} is an operand"
        for value in values_of(node):
            if any(not isinstance(size, int) for size in value.shape):
                return f"has a dynamic shape {[str(size) for size in value.shape]}"
        return None

    help = 'export each size as a method: delegatec.Model(module, methods={"forward_8": (x[:8],), ...})'
    return Constraint("dynamic-shape", f"Shapes are static: {why}", broken, help)


def bounded_shapes(
    why: str,
    computable: Callable[[Any], bool],
    with_scalars: Collection[OpOverload],
    without_rows: tuple[Collection[OpOverload], str] = ((), ""),
) -> Constraint[object]:
    """Requires upper bounds of symbolic sizes, no empty tensors, and arguments that a target can compute.

    Args:
        why: the reason for the bounds.
        computable: whether the target can compute a size from others.
        with_scalars: operators that may have other scalars as operands.
        without_rows: operators whose operands and results may have a first size of zero that depends on data,
            and how the constraint says so.
    """

    def broken(node: Node, _: object) -> str | None:
        for value in values_of(node):
            if any(largest(size) is None for size in value.shape):
                return f"a size of {[str(size) for size in value.shape]} has no upper bound"
            # only a size that depends on data can be zero
            first = 1 if node.target in without_rows[0] and value.dim() > 1 else 0
            if any(smallest_nonempty(size) < 1 for size in value.shape[first:] if not isinstance(size, int)):
                sizes = [str(size) for size in value.shape]
                return f"a tensor of shape {sizes} may be empty"
        scalars = (
            scalar
            for scalar, is_size in _scalars(node)
            if not (computable(scalar) if is_size else node.target in with_scalars)
        )
        return next((f"the scalar {each} is an operand" for each in scalars), None)

    help = 'set both bounds in dynamic_shapes: torch.export.Dim("name", min=1, max=...)'
    return Constraint(
        "dynamic-shape",
        f"Dynamic sizes have upper bounds, and no tensor is empty{without_rows[1]}: {why}",
        broken,
        help,
    )


def _scalars(node: Node) -> Iterator[tuple[Any, bool]]:
    """Yields scalars among the operands, and whether the argument is a size, as in bodies of control flow."""
    if node.target in FORMS:
        given = (each for each in operands(node) if isinstance(each, Node) and is_scalar(each))
        yield from ((each.meta["val"], True) for each in given)
        return
    arguments = node.target._schema.arguments  # type: ignore[union-attr]
    for argument, value in zip(arguments, bind(node).values(), strict=True):
        is_size = "int" in str(argument.type) or node.target is torch.ops.aten.arange.start_step
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, Node) and is_scalar(item):
                yield item.meta["val"], is_size


def known_dtypes(allowed: Collection[torch.dtype], doc: str, help: str) -> Constraint[object]:
    """Requires one of these dtypes of all operands and results."""

    def broken(node: Node, _: object) -> str | None:
        bad = {value.dtype for value in values_of(node)} - set(allowed)
        return f"dtype {', '.join(sorted(map(short_name, bad)))}" if bad else None

    return Constraint("dtype", doc, broken, help)


def no_empty_tensors(why: str) -> Constraint[object]:
    """Requires elements in all operands and results."""

    def broken(node: Node, _: object) -> str | None:
        shapes = [list(value.shape) for value in values_of(node) if _is_empty(value)]
        return f"an empty tensor of shape {shapes[0]}" if shapes else None

    return Constraint("empty", f"No empty tensors: {why}", broken)


def _is_empty(value: torch.Tensor) -> bool:
    return any(type(size) is int and size == 0 for size in value.shape)


def rank_at_most(most: int, why: str) -> Constraint[object]:
    """Limits the dimensions of operands and results."""

    def broken(node: Node, _: object) -> str | None:
        rank = max((value.dim() for value in values_of(node)), default=0)
        return f"rank {rank}" if rank > most else None

    return Constraint("rank", f"Rank is at most {most}: {why}", broken)


# ---- for single rows -------------------------------------------------------------------------------------


def _varying_setting(node: Node, _: object) -> str | None:
    bound = bind(node)
    for name in ("stride", "padding", "dilation", "output_padding", "groups"):
        if any(isinstance(value, Node) for value in each(bound.get(name, 0), 1)):
            return f"{name} follows from a dynamic size"
    return None


STATIC_SETTINGS: Final = Constraint[object](
    "argument",
    "Strides, padding, dilation and groups are static: they are fields of the format.",
    _varying_setting,
)
"""For layers with windows."""


def operand_dtypes(allowed: Collection[torch.dtype], why: str, help: str = "") -> Constraint[object]:
    """Requires one of these dtypes of all operands."""

    def broken(node: Node, _: object) -> str | None:
        bad = {n.meta["val"].dtype for n in operand_nodes(node)} - set(allowed)
        return f"operand of dtype {', '.join(sorted(map(short_name, bad)))}" if bad else None

    return Constraint("dtype", f"Operands are {_dtypes(allowed)}: {why}", broken, help)


def result_dtypes(allowed: Collection[torch.dtype], why: str, help: str = "") -> Constraint[object]:
    """Requires one of these dtypes of the result."""

    def broken(node: Node, _: object) -> str | None:
        dtype = tensors(node.meta["val"])[0].dtype
        return None if dtype in allowed else f"result of dtype {short_name(dtype)}"

    return Constraint("dtype", f"The result is {_dtypes(allowed)}: {why}", broken, help)


def _dtypes(allowed: Collection[torch.dtype]) -> str:
    """Lists dtypes in a sentence: floats, integers, bool, each from narrow to wide."""
    ordered = sorted(allowed, key=lambda d: (d == torch.bool, not d.is_floating_point, d.itemsize, str(d)))
    *names, last = map(short_name, ordered)
    return f"{', '.join(names)} or {last}" if names else last


def same_dtypes(why: str) -> Constraint[object]:
    """Requires that operands have the same dtype."""

    def broken(node: Node, _: object) -> str | None:
        names = {short_name(n.meta["val"].dtype) for n in operand_nodes(node)}
        return f"operands of dtypes {', '.join(sorted(names))}" if len(names) > 1 else None

    return Constraint("dtype", f"Operands have one dtype: {why}", broken)


def rank_of(argument: str, ranks: Sequence[int], why: str, help: str = "") -> Constraint[object]:
    """Requires one of these ranks, which are consecutive, of a tensor argument."""

    def broken(node: Node, _: object) -> str | None:
        rank = bind(node)[argument].meta["val"].dim()
        return None if rank in ranks else f"{argument} has rank {rank}"

    least, most = min(ranks), max(ranks)
    either = " or " if len(ranks) == 2 else " to "
    span = str(least) if least == most else f"{least}{either}{most}"
    return Constraint("rank", f"{argument} has rank {span}: {why}", broken, help)


HAS_AXIS: Final = Constraint[object](
    "rank",
    "self has at least one dimension.",
    lambda node, _: None if bind(node)["self"].meta["val"].dim() else "self has rank 0",
)


OWN_DTYPE: Final = Constraint[object](
    "dtype",
    "The result has the dtype of the operand.",
    lambda node, _: (
        None
        if dtype_of(bind(node)["self"]) == dtype_of(node)
        else f"from {short_name(dtype_of(bind(node)['self']))} to {short_name(dtype_of(node))}"
    ),
)


def argument(name: str, accepts: Callable[[Any], bool], doc: str, help: str = "") -> Constraint[object]:
    """Requires a value of an argument that is accepted."""

    def broken(node: Node, _: object) -> str | None:
        value = bind(node)[name]
        return None if accepts(value) else f"{name} is {value}"

    return Constraint("argument", doc, broken, help)


def contiguous(why: str) -> Constraint[object]:
    """Requires that the argument `memory_format` is row-major."""
    formats = (None, torch.contiguous_format, torch.preserve_format)
    return argument("memory_format", lambda value: value in formats, f"Memory format is contiguous: {why}")


def only_first_result(why: str) -> Constraint[object]:
    """Requires that only the first of several results is used."""

    def broken(node: Node, _: object) -> str | None:
        return next((f"result {index} is used" for index in read_results(node) if index), None)

    return Constraint("result", f"Only the first result is used: {why}", broken)
