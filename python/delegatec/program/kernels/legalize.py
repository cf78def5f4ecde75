# SPDX-License-Identifier: Apache-2.0
"""Legalizes the calls that are left for the runtime's kernels, so that results are those of eager mode."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import Legalizer
from delegatec.edge.legalize.guards import no_new_guards
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.out_variants import out_variant
from delegatec.edge.program import EdgeProgram
from delegatec.edge.rule_names import rule_name
from delegatec.program.kernels.limits import COMPUTED_IN
from delegatec.program.kernels.rewrites import REWRITES
from delegatec.program.kernels.symbolic_rewrites import SYMBOLIC_REWRITES

aten = torch.ops.aten


def legalize(program: EdgeProgram) -> None:
    """Rewrites calls that kernels reject or compute differently from eager mode. Runs after delegation.

    Args:
        program: edited in place, with the bodies of its control flow.
    """
    for each in program.walk():
        builder = Builder(each)
        with no_new_guards(builder):
            Legalizer(builder, _Kernels()).run()


class _Kernels:
    """The runtime's kernels."""

    full: Final = False

    def __init__(self) -> None:
        # calls of the rewritten operator that its rewrite emitted: the kernel supports them
        self._done: set[Node] = set()

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`. The rewrite itself decides whether it applies."""
        return None if node in self._done or not _may_be_rewritten(node) else _REWRITTEN

    def rules(self, node: Node) -> Sequence[Rule]:
        """See `Target.rules`."""
        return (self._rewrite,)

    def _rewrite(self, builder: Builder, node: Node) -> Any:
        before = node.prev
        results = _rewritten(builder, node)
        if results is None:
            # the same call in a wider dtype may need a rewrite
            return _computed_wider(builder, node)
        made = before.next
        while made is not node:
            if made.target is node.target:
                self._done.add(made)
            made = made.next
        return results


_REWRITTEN_TARGETS: Final = frozenset({*REWRITES, *COMPUTED_IN, *SYMBOLIC_REWRITES})
_REWRITTEN: Final = Refusal("operator", "may be rejected or computed wrongly by its kernel")


def _may_be_rewritten(node: Node) -> bool:
    target: Any = node.target
    if target in _REWRITTEN_TARGETS:
        return True
    return _is_empty(node) and out_variant(target) is not None


def _rewritten(b: Builder, node: Node) -> Any:
    target: Any = node.target
    if target in SYMBOLIC_REWRITES:
        return SYMBOLIC_REWRITES[target](b, node)
    if _is_empty(node):
        val = node.meta["val"]
        return b.call(aten.full.default, list(val.shape), 0, dtype=val.dtype, val=val)
    rewrite = REWRITES.get(target)
    if rewrite is None:
        return None
    b.rule = rule_name(rewrite)
    return rewrite(b, node)


def _is_empty(node: Node) -> bool:
    """Whether the result of a call is empty. Some kernels abort on empty reductions."""
    val = node.meta["val"]
    if not isinstance(val, torch.Tensor) or node.target is aten.full.default:
        return False
    sizes = tuple(val.shape)
    return all(isinstance(size, int) for size in sizes) and 0 in sizes


def _computed_wider(b: Builder, node: Node) -> Node | list[Node] | None:
    """Converts operands to the dtype of the computation, and results back."""
    target: Any = node.target
    wider = {} if _is_row(node) else COMPUTED_IN.get(target, {})
    if not any(_dtype(source) in wider for source in node.all_input_nodes):
        return None

    def widen(source: Node) -> Node:
        dtype = wider.get(_dtype(source))
        return source if dtype is None else b.call(aten._to_copy.default, source, dtype=dtype)

    # an operand may occur twice
    operands = {source: widen(source) for source in node.all_input_nodes}
    args: Any
    kwargs: Any
    args, kwargs = map_arg((node.args, node.kwargs), operands.__getitem__)
    if kwargs.get("dtype") in wider:
        kwargs = {**kwargs, "dtype": wider[kwargs["dtype"]]}
    val = node.meta["val"]
    # inference of some operators specializes dynamic sizes
    widened = pytree.tree_map_only(
        torch.Tensor, lambda each: b.empty(each.shape, wider.get(each.dtype, each.dtype)), val
    )
    result = b.call(target, *args, val=widened, **kwargs)
    if isinstance(val, torch.Tensor):
        return _narrowed(b, result, val)
    if not isinstance(val, (list, tuple)):
        return result  # a scalar
    pieces = zip(val, widened, strict=True)
    return [
        _narrowed(b, b.call(operator.getitem, result, i, val=wide), narrow)
        for i, (narrow, wide) in enumerate(pieces)
    ]


def _is_row(node: Node) -> bool:
    """Whether a call is a linear layer of one row: too little work for the memory of a converted weight."""
    rows = node.meta["val"].shape[:-1] if node.target is aten.linear.default else (0,)
    return all(isinstance(size, int) and size == 1 for size in rows)


def _narrowed(b: Builder, node: Node, val: torch.Tensor) -> Node:
    if _dtype(node) == val.dtype:
        return node
    return b.call(aten._to_copy.default, node, dtype=val.dtype, val=val)


def _dtype(node: Node) -> Any:
    """Returns the dtype of a tensor; None for a scalar."""
    return getattr(node.meta.get("val"), "dtype", None)
