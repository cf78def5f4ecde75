# SPDX-License-Identifier: Apache-2.0
"""Converts a graph to normal form in place: by rules, and by torch's decompositions for the rest.

Torch's decompositions, and ours of rare operators, are Python functions that run under a tracer. Tracing the
complete graph takes seconds; here each distinct call signature is traced once and the trace is copied.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException, UnsupportedOperatorException
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    _ShapeEnvGuardError,
    free_unbacked_symbols,
)

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.fakes import uncached
from delegatec.edge.legalize.engine import Legalizer
from delegatec.edge.legalize.guards import no_new_guards
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.legalize.rules import FUNCTIONS, RULES
from delegatec.edge.legalize.scalars import convert_scalars, has_other_scalars
from delegatec.edge.legalize.templates import Templates, is_traced
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.rule_names import rule_name
from delegatec.edge.symbols import COMPUTED, UnknownSizeError, is_never_negative, smallest

aten = torch.ops.aten

_NOT_NORMAL: Final = Refusal("operator", "is not in normal form")


def decompose(
    program: EdgeProgram, preserve: Collection[OpOverload] = (), kept: Collection[Node] = ()
) -> None:
    """Replaces every operator that is not in normal form by operators that are.

    An operator is kept if a backend preserves it; if no rule applies and the runtime has a kernel for it; or
    if torch does not have a decomposition either (`check_kernels` reports it, unless it is delegated).

    Args:
        program: edited in place.
        preserve: operators to keep.
        kept: nodes to keep.
    """
    builder = Builder(program)
    with no_new_guards(builder):
        Legalizer(builder, _NormalForm(preserve, kept)).run()


class _NormalForm:
    """The normal form; see `decompose`."""

    full: Final = False

    def __init__(self, preserve: Collection[OpOverload], kept: Collection[Node]) -> None:
        self._preserve = preserve
        self._kept = kept
        self._templates = Templates()

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`. The rule itself decides whether it applies."""
        if _is_specialized_scalar(node) or _is_unsupported_scalar(node):
            return _NOT_NORMAL
        target = node.target
        if not isinstance(target, OpOverload) or node in self._kept:
            return None
        if has_other_scalars(node):
            return _NOT_NORMAL
        # a backend that preserves an operator gets no values without elements: it would have to expect them
        if (
            target in self._preserve
            and not _is_empty(node)
            and not _is_linear_of_vector(node)
            and not self._is_arithmetic(node, facts)
        ):
            return None
        return _NOT_NORMAL if target in RULES or is_traced(target) or _is_empty(node) else None

    def _is_arithmetic(self, node: Node, facts: Facts) -> bool:
        """Whether a call dequantizes blocks of dynamic sizes, or an activation that arithmetic quantized."""
        if node.target is not DEQUANTIZE_BLOCKS:
            return False
        if any(isinstance(size, Node) for size in bind(node)["block_size"]):
            return True
        x = node.all_input_nodes[0]
        is_quantized = x.op == "placeholder" or x.target in self._preserve
        return not is_quantized and not _follows_from_constants(x, facts)

    def rules(self, node: Node) -> Sequence[Rule]:
        """See `Target.rules`."""
        if _is_specialized_scalar(node):
            return (_specialized_scalar,)
        if not isinstance(node.target, OpOverload):
            return (_recompute,)
        if _is_empty(node):
            return (_nothing,)
        return (convert_scalars,) if has_other_scalars(node) else (self._compute,)

    def _compute(self, builder: Builder, node: Node) -> Any:
        return computed(builder, node, self._templates, RULES)


def _follows_from_constants(node: Node, facts: Facts) -> bool:
    pending, seen = [node], {node}
    while pending:
        each = pending.pop()
        if each.op == "placeholder" and facts.constant(each) is None:
            return False
        new = [operand for operand in each.all_input_nodes if operand not in seen]
        seen.update(new)
        pending += new
    return True


def _is_linear_of_vector(node: Node) -> bool:
    """Whether a node is `linear` with a 1-d weight, which neither the kernel nor a backend supports."""
    return node.target is aten.linear.default and len(shape_of(bind(node)["weight"])) == 1


def _is_specialized_scalar(node: Node) -> bool:
    """Whether a node computes a scalar from sizes that became static after it was traced."""
    return node.op == "call_function" and isinstance(node.meta.get("val"), (int, float))


def _specialized_scalar(_: Builder, node: Node) -> Any:
    return node.meta["val"]


def _is_unsupported_scalar(node: Node) -> bool:
    """Whether a node computes a scalar by a function without a primitive in the runtime."""
    return (
        node.op == "call_function"
        and isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
        and not isinstance(node.target, OpOverload)
        and node.target is not operator.getitem
        and (node.target not in COMPUTED or _is_floored(node))
    )


def _is_floored(node: Node) -> bool:
    """Whether a node computes a remainder that may differ from the runtime's, which truncates as C does."""
    scalars = [each.meta["val"] if isinstance(each, Node) else each for each in node.args]
    return node.target is operator.mod and not all(map(is_never_negative, scalars))


def _recompute(builder: Builder, node: Node) -> Any:
    try:
        return builder.scalar(node.meta["val"])
    except UnknownSizeError as error:
        raise DelegatecError([_data_dependent(node, error)]) from None


def _nothing(builder: Builder, node: Node) -> Node:
    """Returns an empty tensor: many kernels reject empty results."""
    return builder.call(aten.full.default, list(shape_of(node)), 0, dtype=dtype_of(node))


def computed(builder: Builder, node: Node, templates: Templates, rules: Mapping[OpOverload, Rule]) -> Any:
    """Computes a node by a rule, a function, or torch's decomposition.

    Returns:
        Nodes, inserted before `node`; None if nothing applies.

    Raises:
        DelegatecError: DC205 if it needs data-dependent sizes.
    """
    try:
        try:
            return _computed(builder, node, templates, rules)
        except _ShapeEnvGuardError:
            with uncached(builder.fake_mode):
                return _computed(builder, node, templates, rules)
    except _ShapeEnvGuardError:
        raise DelegatecError([_fixed_size(node)]) from None
    except (UnknownSizeError, GuardOnDataDependentSymNode, DataDependentOutputException) as error:
        raise DelegatecError([_data_dependent(node, error)]) from None
    except UnsupportedOperatorException:
        return None  # torch's decomposition calls an operator without fake values
    except RuntimeError as error:
        # Decompositions in C++ reject symbolic sizes in many ways; ours reach functions that do.
        is_ours = node.target in FUNCTIONS and "SymIntArrayRef" not in str(error)
        if is_ours or not _has_symbolic_operands(node):
            raise
        raise DelegatecError([_fixed_size(node)]) from None


def _computed(builder: Builder, node: Node, templates: Templates, rules: Mapping[OpOverload, Rule]) -> Any:
    assert isinstance(node.target, OpOverload)
    rule, function = rules.get(node.target), FUNCTIONS.get(node.target)
    own = rule or function
    builder.rule = f"torch: {node.target}" if own is None else rule_name(own)
    results = rule(builder, node) if rule is not None else None
    if callable(results):
        return templates.apply(builder, node, results)
    if results is None and is_traced(node.target):
        return templates.apply(builder, node, function)
    return results


def _has_symbolic_operands(node: Node) -> bool:
    values = [source.meta["val"] for source in node.all_input_nodes]
    return any(
        not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape)
        for value in values
    )


def _is_empty(node: Node) -> bool:
    val = node.meta["val"]
    return (
        isinstance(val, torch.Tensor)
        and node.target is not aten.full.default
        and any(isinstance(size, int) and size == 0 for size in val.shape)
        # the number of rows is data-dependent
        and not free_unbacked_symbols(val)
        # torch says a - 2 for x[2:] with a rows, of which an empty x may have one
        and all(smallest(size) >= 0 for size in val.shape)
    )


def _fixed_size(node: Node) -> Diagnostic:
    return Diagnostic(
        "DC205",
        f"torch's decomposition of {node.target} specializes a dynamic size of its arguments",
        location=node.meta.get("source"),
        node=node.name,
        expected="an operator whose decomposition holds for all sizes",
        help="make the dimension static, or use other operators",
    )


def _data_dependent(
    node: Node, error: UnknownSizeError | GuardOnDataDependentSymNode | DataDependentOutputException
) -> Diagnostic:
    if isinstance(error, UnknownSizeError):
        message = (
            f"the shape of {node.name} depends on {error}, which does not follow from the inputs' shapes"
        )
    else:
        what = error.cond if isinstance(error, GuardOnDataDependentSymNode) else error.func
        message = f"the decomposition of {node.target} depends on {what}, which is data-dependent"
    return Diagnostic(
        "DC205",
        message,
        location=node.meta.get("source"),
        node=node.name,
        expected="sizes that follow from the sizes of the inputs",
        help="avoid operators whose output shape depends on data, such as nonzero and masked_select",
    )
