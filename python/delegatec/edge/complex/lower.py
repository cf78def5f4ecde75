# SPDX-License-Identifier: Apache-2.0
"""Replacement of a program's complex values by pairs of real tensors."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.complex import arithmetic, fourier, spectrogram
from delegatec.edge.complex.pair import Pair, filled, real_dtype
from delegatec.edge.complex.structure import PARTWISE, partwise
from delegatec.edge.complex.values import UnsupportedError, Values, is_complex
from delegatec.edge.handles import Origin, describe_operator
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.guards import no_new_guards
from delegatec.edge.legalize.normal_form import computed
from delegatec.edge.legalize.templates import Templates
from delegatec.edge.program import EdgeProgram

RULES: Final = {**arithmetic.RULES, **fourier.RULES, **spectrogram.RULES}


def lower_complex(program: EdgeProgram, origins: Mapping[int, Origin]) -> None:
    """Replaces complex values and Fourier transforms by real tensors.

    Args:
        program: edited in place, without its bodies, which need separate calls.
        origins: origins of the method; messages name the operators in user code.

    Raises:
        DelegatecError: DC202 for complex values at the boundary of the program or of control flow, and for
            unsupported operators; DC205 for transforms of dynamic lengths, or of lengths above
            `fourier.LONGEST`.
    """
    if not any(is_complex(node) or _is_transform(node) for node in program.graph.nodes):
        return
    builder, templates = Builder(program), Templates()
    values = Values(program, origins)
    problems: list[Diagnostic] = []
    with no_new_guards(builder):
        node = program.graph._root.next
        while node.op != "root":
            following, before = node.next, node.prev
            if _is_concerned(node):
                _forget_conjugation(builder, node)
                try:
                    if _lower(values, builder.at(node), node, templates):
                        # torch's decomposition is complex, too
                        following = before.next
                except UnsupportedError as error:
                    problems.append(error.diagnostic)
                    values.unsupported.add(node)
            node = following
    if problems:
        raise DelegatecError(problems)
    _erase(program)
    values.constants.declare()
    program.erase_unused_placeholders()


def _is_concerned(node: Node) -> bool:
    return is_complex(node) or any(map(is_complex, node.all_input_nodes)) or _is_transform(node)


def _is_transform(node: Node) -> bool:
    name = node.target._opname if isinstance(node.target, OpOverload) else ""
    return (name in RULES and name in (*fourier.RULES, *spectrogram.RULES)) or name.startswith("fft_")


def _forget_conjugation(b: Builder, node: Node) -> None:
    """Removes conjugation from a node's fake value: tracing with it would give other operators."""
    node.meta["val"] = pytree.tree_map_only(
        torch.Tensor,
        lambda val: b.empty(val.shape, val.dtype) if val.is_complex() else val,
        node.meta.get("val"),
    )


def _lower(values: Values, b: Builder, node: Node, templates: Templates) -> bool:
    """Sets the pair of a node, or replaces it by real nodes or torch's decomposition.

    Returns:
        Whether the nodes before it must be lowered in turn.
    """
    if any(operand in values.unsupported for operand in node.all_input_nodes):
        values.unsupported.add(node)
        return False
    if node.op == "placeholder" and node.name in values.fixed:
        values.split_constant(b, node)
        return False
    if node.op != "call_function" or not (
        isinstance(node.target, OpOverload) or node.target is operator.getitem
    ):
        raise UnsupportedError(_at_boundary(node))
    result = _by_rule(values, b, node)
    if result is not None:
        _put(values, b, node, result)
        return False
    if isinstance(node.target, OpOverload):
        results = computed(b, node, templates, rules={})
        if results is not None:
            replace(node, results)
            return True
    if is_complex(node) or any(is_complex(operand) for operand in node.all_input_nodes):
        raise UnsupportedError(_unknown(values, node))
    return False


def _by_rule(values: Values, b: Builder, node: Node) -> Any:
    name = node.target._opname if isinstance(node.target, OpOverload) else None
    if name in RULES:
        return RULES[name](values, b, node)
    if name is None or (name in PARTWISE and is_complex(node)):
        return partwise(values, b, node)
    return None


def _put(values: Values, b: Builder, node: Node, result: Any) -> None:
    val = node.meta["val"]
    if not isinstance(val, torch.Tensor):
        values.pairs[node] = result
    elif val.is_complex():
        assert isinstance(result, Pair)
        kind = real_dtype(val.dtype)
        values.pairs[node] = Pair(
            *(filled(b, part, shape_of(node), kind) if isinstance(part, Node) else part for part in result)
        )
    else:
        replace(node, filled(b, result, shape_of(node), dtype_of(node)))


def _erase(program: EdgeProgram) -> None:
    """Erases the complex nodes, which only complex nodes use."""
    for node in reversed(list(program.graph.nodes)):
        if node.op == "call_function" and is_complex(node):
            program.graph.erase_node(node)


def _at_boundary(node: Node) -> Diagnostic:
    complex_values = [each for each in (node, *node.all_input_nodes) if is_complex(each)]
    what = {"placeholder": "input", "output": "output"}.get(node.op, "operand or result of control flow")
    name, val = complex_values[0].name, complex_values[0].meta["val"]
    kind = next(
        leaf.dtype for leaf in pytree.tree_leaves(val) if isinstance(leaf, torch.Tensor) and leaf.is_complex()
    )
    return Diagnostic(
        "DC202",
        f"{what} {name} has complex dtype {str(kind).removeprefix('torch.')}",
        location=node.meta.get("source") or complex_values[0].meta.get("source"),
        node=node.name,
        expected="complex numbers only inside the model",
        help="pass torch.view_as_real of it, and call torch.view_as_complex inside the model",
    )


def _unknown(values: Values, node: Node) -> Diagnostic:
    return Diagnostic(
        "DC202",
        f"{describe_operator(node, values.origins)} is not supported on complex numbers",
        location=node.meta.get("source"),
        node=node.name,
        expected="arithmetic, matrix products, Fourier transforms, or data movement",
        help="rewrite it with real tensors, or with exp, log and angle of complex ones",
    )
