# SPDX-License-Identifier: Apache-2.0
"""Constraints that several rows share, and those that hold for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mps.compile_spec import Precision
from delegatec.backends.mps.dtypes import ALL, FLOATS, TO_FORMAT, short_name
from delegatec.backends.mps.operators.row import Constraint
from delegatec.edge.arguments import bind

EXACT_FLOAT32: Final = 2**24
"""Integers beyond it have no float32, the type in which the format holds numbers."""


def tensors(val: Any) -> list[torch.Tensor]:
    """The tensors in a node's value."""
    if isinstance(val, torch.Tensor):
        return [val]
    if isinstance(val, (tuple, list)):
        return [t for item in val for t in tensors(item)]
    return []


def operand_nodes(node: Node) -> list[Node]:
    """Nodes whose value is a tensor that a node reads."""
    return [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]


def read_results(node: Node) -> list[int]:
    """Of a node with several results, the indices of those that are read."""
    return sorted({user.args[1] for user in node.users if isinstance(user.args[1], int)})


def _values(node: Node) -> list[torch.Tensor]:
    """What a node reads, and of its results those that are read."""
    results = node.meta.get("val")
    if isinstance(results, (tuple, list)):
        results = [results[index] for index in sorted({0, *read_results(node)})]
    return [t for val in (*(n.meta.get("val") for n in node.all_input_nodes), results) for t in tensors(val)]


def _dynamic(node: Node, _: Precision) -> str | None:
    for source in node.all_input_nodes:
        if isinstance(source.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return f"reads the symbolic number {source.meta['val']}"
    for value in _values(node):
        if any(not isinstance(size, int) for size in value.shape):
            return f"has a dynamic shape {[str(size) for size in value.shape]}"
    return None


def _unknown_dtype(node: Node, _: Precision) -> str | None:
    bad = sorted({short_name(t.dtype) for t in _values(node)} - {short_name(d) for d in ALL})
    return f"dtype {', '.join(bad)}" if bad else None


def _empty(node: Node, _: Precision) -> str | None:
    for value in _values(node):
        if 0 in value.shape:
            return f"a tensor of shape {list(value.shape)} has no elements"
    return None


def _high_rank(node: Node, _: Precision) -> str | None:
    rank = max((value.dim() for value in _values(node)), default=0)
    return f"rank {rank}" if rank > 16 else None


UNIVERSAL: Final = (
    Constraint(
        "dynamic-shape",
        "Shapes are static: the runtime compiles the graph for the shapes in the blob.",
        _dynamic,
        "export with static shapes",
    ),
    Constraint(
        "dtype",
        "Tensors are float32, float16, int8, int16, int32, int64 or bool: the runtime stops at other types, "
        "and reads a float64 buffer as float32.",
        _unknown_dtype,
        "convert to float32 or int64",
    ),
    Constraint("empty", "No tensor without elements: MPSGraph has none.", _empty),
    Constraint("rank", "Rank 16 at most: the limit of MPSGraph.", _high_rank),
)


def operand_dtypes(allowed: Collection[torch.dtype], why: str, help: str = "") -> Constraint:
    """All tensors that the node reads have one of these dtypes."""

    def broken(node: Node, _: Precision) -> str | None:
        bad = {n.meta["val"].dtype for n in operand_nodes(node)} - set(allowed)
        return f"operand of dtype {', '.join(sorted(map(short_name, bad)))}" if bad else None

    return Constraint("dtype", f"Operands are {_dtypes(allowed)}: {why}", broken, help)


def result_dtypes(allowed: Collection[torch.dtype], why: str, help: str = "") -> Constraint:
    """The result has one of these dtypes."""

    def broken(node: Node, _: Precision) -> str | None:
        dtype = tensors(node.meta["val"])[0].dtype
        return None if dtype in allowed else f"result of dtype {short_name(dtype)}"

    return Constraint("dtype", f"The result is {_dtypes(allowed)}: {why}", broken, help)


def _dtypes(allowed: Collection[torch.dtype]) -> str:
    """Names of dtypes in a sentence, in the order of the format's table."""
    *names, last = (short_name(dtype) for dtype in TO_FORMAT if dtype in allowed)
    return f"{', '.join(names)} or {last}" if names else last


def same_dtypes() -> Constraint:
    """All floating operands have one dtype."""

    def broken(node: Node, _: Precision) -> str | None:
        names = {short_name(n.meta["val"].dtype) for n in operand_nodes(node)}
        return f"operands of dtypes {', '.join(sorted(names))}" if len(names) > 1 else None

    return Constraint("dtype", "Operands have one dtype: MPSGraph does not promote here.", broken)


def rank_of(argument: str, ranks: Sequence[int], why: str, help: str = "") -> Constraint:
    """A tensor argument has one of these ranks, which follow each other."""

    def broken(node: Node, _: Precision) -> str | None:
        rank = bind(node)[argument].meta["val"].dim()
        return None if rank in ranks else f"{argument} has rank {rank}"

    least, most = min(ranks), max(ranks)
    either = " or " if len(ranks) == 2 else " to "
    span = str(least) if least == most else f"{least}{either}{most}"
    return Constraint("rank", f"{argument} has rank {span}: {why}", broken, help)


HAS_AXIS: Final = Constraint(
    "rank",
    "self has at least one dimension.",
    lambda node, _: None if bind(node)["self"].meta["val"].dim() else "self has rank 0",
)


def argument(name: str, accepts: Callable[[Any], bool], doc: str, help: str = "") -> Constraint:
    """An argument has a value that is accepted."""

    def broken(node: Node, _: Precision) -> str | None:
        value = bind(node)[name]
        return None if accepts(value) else f"{name} is {value}"

    return Constraint("argument", doc, broken, help)


def only_first_result(why: str) -> Constraint:
    """Of several results, only the first is read."""

    def broken(node: Node, _: Precision) -> str | None:
        return next((f"its result {index} is read" for index in read_results(node) if index), None)

    return Constraint("result", f"Only its first result may be read: {why}", broken)


def exact_number(name: str) -> Constraint:
    """An integer argument that a float32 field holds exactly, for an integer result."""

    def broken(node: Node, _: Precision) -> str | None:
        value = bind(node)[name]
        dtype = tensors(node.meta["val"])[0].dtype
        if dtype in FLOATS or value is None or abs(value) <= EXACT_FLOAT32:
            return None
        return f"{name} is {value}"

    return Constraint(
        "argument", f"An integer {name} is 2^24 at most: the format holds it in a float32.", broken
    )


FLOAT_OPERANDS: Final = operand_dtypes(
    FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"
)
CONTIGUOUS: Final = argument(
    "memory_format",
    lambda value: value in (None, torch.contiguous_format, torch.preserve_format),
    "Memory format is contiguous: the format has no strides.",
)
