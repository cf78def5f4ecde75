# SPDX-License-Identifier: Apache-2.0
"""Brings a graph to normal form in place: our own rules first, torch's decompositions for the rest.

Torch's decompositions are Python functions that run under a tracer, and so are those of ours that are rare.
Tracing the whole graph through them takes seconds; here each distinct call signature is traced once and the
trace is copied to every call that has it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx import Node
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    _ShapeEnvGuardError,
    free_unbacked_symbols,
)

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype, shape
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import Legalizer
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.legalize.rules import FUNCTIONS, RULES
from delegatec.edge.legalize.templates import Templates, is_traced
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import COMPUTED, UnknownSizeError

aten = torch.ops.aten

_NOT_NORMAL: Final = Refusal("operator", "is not of the normal form")


def decompose(
    program: EdgeProgram, preserve: Collection[OpOverload] = (), kept: Collection[Node] = ()
) -> None:
    """Replaces every operator that is not of the normal form by operators that are.

    An operator stays when a backend asks for it; when no rule of ours applies and the runtime has a kernel
    for it; or when torch knows no decomposition either (who finds it left over, without a delegate, reports
    it).

    Args:
        program: edited in place.
        preserve: operators to leave alone.
        kept: nodes to leave alone.
    """
    builder = Builder(program)
    with no_new_guards(builder):
        Legalizer(builder, _NormalForm(preserve, kept)).run()


class _NormalForm:
    """What the edge program may have; see `decompose`."""

    closes: Final = False

    def __init__(self, preserve: Collection[OpOverload], kept: Collection[Node]) -> None:
        self._preserve = preserve
        self._kept = kept
        self._templates = Templates()

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`. Whether a rule applies, the rule knows."""
        if _is_other_number(node):
            return _NOT_NORMAL
        target = node.target
        if not isinstance(target, OpOverload) or node in self._kept:
            return None
        if target in self._preserve and not _is_linear_of_vector(node):
            return None
        return _NOT_NORMAL if target in RULES or is_traced(target) or _is_empty(node) else None

    def rules(self, node: Node) -> Sequence[Rule]:
        """See `Target.rules`."""
        if not isinstance(node.target, OpOverload):
            return (_recompute,)
        if _is_empty(node):
            return (_nothing,)
        return (self._compute,)

    def _compute(self, builder: Builder, node: Node) -> Any:
        return computed(builder, node, self._templates, RULES)


@contextmanager
def no_new_guards(builder: Builder) -> Iterator[None]:
    """Makes code that compares symbolic sizes raise, where the answer would fix what export left dynamic.

    Where torch asks only to choose a shortcut ("is this size 1?"), it goes without the shortcut.
    """
    shape_env = builder.fake_mode.shape_env
    if shape_env is None:
        yield
        return
    with shape_env.error_on_new_guards(), _config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        yield


def _is_linear_of_vector(node: Node) -> bool:
    """Whether it is `linear` with a weight of one dimension, which neither the kernel nor a backend takes."""
    return node.target is aten.linear.default and len(shape(bind(node)["weight"])) == 1


def _is_other_number(node: Node) -> bool:
    """Whether a node computes a number by a function that the runtime does not have as such."""
    return (
        node.op == "call_function"
        and isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
        and not isinstance(node.target, OpOverload)
        and node.target is not operator.getitem
        and node.target not in COMPUTED
    )


def _recompute(builder: Builder, node: Node) -> Any:
    try:
        return builder.number(node.meta["val"])
    except UnknownSizeError as error:
        raise DelegatecError([_unknown_size(node, error)]) from None


def _nothing(builder: Builder, node: Node) -> Node:
    """Many kernels refuse to compute nothing."""
    return builder.call(aten.full.default, list(shape(node)), 0, dtype=dtype(node))


def computed(builder: Builder, node: Node, templates: Templates, rules: Mapping[OpOverload, Rule]) -> Any:
    """What a rule, a function of ours or a decomposition of torch puts in the place of a node.

    Returns:
        Nodes, made in front of `node`; None where nothing applies.

    Raises:
        DelegatecError: DC205 where it depends on sizes that are not known.
    """
    assert isinstance(node.target, OpOverload)
    rule = rules.get(node.target)
    try:
        results = rule(builder, node) if rule is not None else None
        if callable(results):
            return templates.apply(builder, node, results)
        if results is None and is_traced(node.target):
            return templates.apply(builder, node, FUNCTIONS.get(node.target))
    except UnknownSizeError as error:
        raise DelegatecError([_unknown_size(node, error)]) from None
    except _ShapeEnvGuardError:
        raise DelegatecError([_fixed_size(node)]) from None
    except (GuardOnDataDependentSymNode, DataDependentOutputException) as error:
        raise DelegatecError([_data_dependent(node, error)]) from None
    return results


def _is_empty(node: Node) -> bool:
    val = node.meta["val"]
    return (
        isinstance(val, torch.Tensor)
        and node.target is not aten.full.default
        and any(isinstance(size, int) and size == 0 for size in val.shape)
        # the number of rows of what is found is known to the operator that finds it alone
        and not free_unbacked_symbols(val)
    )


def _fixed_size(node: Node) -> Diagnostic:
    return Diagnostic(
        "DC205",
        f"torch decomposes {node.target} for one size only, and a size of its arguments is dynamic",
        location=node.meta.get("source"),
        node=node.name,
        expected="an operator that has the same decomposition for all sizes",
        help="make the dimension static, or write the operator with others",
    )


def _data_dependent(
    node: Node, error: GuardOnDataDependentSymNode | DataDependentOutputException
) -> Diagnostic:
    what = error.cond if isinstance(error, GuardOnDataDependentSymNode) else error.func
    return Diagnostic(
        "DC205",
        f"{what} decides how {node.target} is computed, and depends on data",
        location=node.meta.get("source"),
        node=node.name,
        expected="sizes that follow from the sizes of the inputs",
        help="avoid operators whose output shape depends on data, such as nonzero and masked_select",
    )


def _unknown_size(node: Node, error: UnknownSizeError) -> Diagnostic:
    return Diagnostic(
        "DC205",
        f"the shape of {node.name} depends on {error}, which no input's shape gives",
        location=node.meta.get("source"),
        node=node.name,
        expected="sizes that follow from the sizes of the inputs",
        help="avoid operators whose output shape depends on data, such as nonzero and masked_select",
    )
