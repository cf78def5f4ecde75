# SPDX-License-Identifier: Apache-2.0
"""Brings a graph to normal form in place: our own rules first, torch's decompositions for the rest.

Torch's decompositions are Python functions that run under a tracer, and so are those of ours that are rare.
Tracing the whole graph through them takes seconds; here each distinct call signature is traced once and the
trace is copied to every call that has it.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx import Graph, Node
from torch.fx.experimental import _config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    _ShapeEnvGuardError,
    free_unbacked_symbols,
)
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.arguments import bind, dtype, shape
from delegatec.edge.builder import Builder
from delegatec.edge.decompositions import FUNCTIONS, RULES, Function
from delegatec.edge.out_variants import out_variant
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature
from delegatec.edge.symbols import COMPUTED, UnknownSizeError

aten = torch.ops.aten


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
    templates = _Templates()
    with _no_new_guards(builder):
        node = program.graph._root.next
        while node.op != "root":
            following = node.next
            if _is_candidate(node, preserve) and node not in kept:
                before = node.prev
                if _apply(builder.at(node), node, templates):
                    # what was just made may itself have a decomposition
                    following = before.next
            elif _is_other_number(node):
                _recompute(builder.at(node), node)
            node = following


def replace(node: Node, results: Node | Sequence[Node]) -> None:
    """Puts `results` in the place of `node`: one node, or one for each element that `getitem` takes of it."""
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for user in list(node.users):
            assert user.target is operator.getitem, f"{user} takes the whole tuple of {node}"
            user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
            user.graph.erase_node(user)
    node.graph.erase_node(node)


@contextmanager
def _no_new_guards(builder: Builder) -> Iterator[None]:
    """Makes code that compares symbolic sizes raise, where the answer would fix what export left dynamic.

    Where torch asks only to choose a shortcut ("is this size 1?"), it goes without the shortcut.
    """
    shape_env = builder.fake_mode.shape_env
    if shape_env is None:
        yield
        return
    with shape_env.error_on_new_guards(), _config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        yield


def _is_candidate(node: Node, preserve: Collection[OpOverload]) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    return node.target not in preserve or _is_linear_of_vector(node)


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


def _recompute(builder: Builder, node: Node) -> None:
    try:
        number = builder.number(node.meta["val"])
    except UnknownSizeError as error:
        raise DelegatecError([_unknown_size(node, error)]) from None
    node.replace_all_uses_with(number)
    node.graph.erase_node(node)


def _apply(builder: Builder, node: Node, templates: _Templates) -> bool:
    assert isinstance(node.target, OpOverload)
    if _is_empty(node):
        # many kernels refuse to compute nothing
        replace(node, builder.call(aten.full.default, list(shape(node)), 0, dtype=dtype(node)))
        return True
    rule = RULES.get(node.target)
    try:
        results = rule(builder, node) if rule is not None else None
        if callable(results):
            results = templates.apply(builder, node, results)
        elif results is None and _is_traced(node.target):
            results = templates.apply(builder, node, FUNCTIONS.get(node.target))
    except UnknownSizeError as error:
        raise DelegatecError([_unknown_size(node, error)]) from None
    except _ShapeEnvGuardError:
        raise DelegatecError([_fixed_size(node)]) from None
    except (GuardOnDataDependentSymNode, DataDependentOutputException) as error:
        raise DelegatecError([_data_dependent(node, error)]) from None
    if results is None:
        return False
    replace(node, results)
    return True


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


@cache
def _torch_table() -> dict[Any, Any]:
    table: Any = core_aten_decompositions()
    return {
        op: function
        for op, function in table.items()
        if (out_variant(op) is None or op in RULES) and op not in FUNCTIONS
    }


@cache
def _is_traced(target: OpOverload) -> bool:
    return target in FUNCTIONS or (out_variant(target) is None and _torch_decomposes(target))


@cache
def _torch_decomposes(target: OpOverload) -> bool:
    return target in _torch_table() or target in decomposition_table or target._can_decompose()


def _table_for(target: OpOverload) -> dict[Any, Any]:
    """Torch's decompositions to core ATen, and that of `target` itself even if it leads elsewhere."""
    table = _torch_table()
    if target in table or target not in decomposition_table or out_variant(target) is not None:
        return table
    return {**table, target: decomposition_table[target]}


class _Templates:
    """Traces of torch's decompositions, one for each distinct call signature."""

    def __init__(self) -> None:
        self._traces: dict[Hashable, Graph | None] = {}
        # signatures of the calls whose decomposition led to a node
        self._origins: dict[Node, frozenset[Hashable]] = {}

    def apply(self, builder: Builder, node: Node, function: Function | None) -> Any:
        """What takes the place of `node`, by a function of ours or of torch; None where there is none."""
        key = call_signature(node.target, node.args, node.kwargs)  # type: ignore[arg-type]
        origins = self._origins.get(node, frozenset())
        if key in origins:
            # some of torch's decompositions give the operator back
            return None
        if key not in self._traces:
            self._traces[key] = _trace(builder, node, function)
        template = self._traces[key]
        if template is None or not _gives(template, node):
            return None
        before = node.prev
        results = _instantiate(builder, node, template)
        while before.next is not node:
            before = before.next
            self._origins[before] = origins | {key}
        return results


def _gives(template: Graph, node: Node) -> bool:
    """Whether a trace has every result of `node` that is read; None stands for one that it has not."""
    results: Any = template.output_node().args[0]
    return not isinstance(results, (tuple, list)) or all(
        results[user.args[1]] is not None  # type: ignore[index]
        for user in node.users
        if user.target is operator.getitem and user.users
    )


def _operands(node: Node) -> list[Node]:
    """The nodes among a call's arguments, each as often as it occurs."""
    found: list[Node] = []
    map_arg((node.args, node.kwargs), found.append)
    return found


def _trace(builder: Builder, node: Node, function: Function | None) -> Graph | None:
    """The decomposition of one call, as a graph over its operands; None where there is none for it."""
    target = node.target
    assert isinstance(target, OpOverload)

    def call(*operands: Any) -> Any:
        remaining = iter(operands)
        args, kwargs = map_arg((node.args, node.kwargs), lambda _: next(remaining))
        result = NotImplemented if function is None else function(*args, **kwargs)
        return target(*args, **kwargs) if result is NotImplemented else result

    values = [operand.meta["val"] for operand in _operands(node)]
    with builder.fake_mode:
        traced = make_fx(call, decomposition_table=_table_for(target), tracing_mode="real")(*values)
        operators = [n.target for n in traced.graph.nodes if isinstance(n.target, OpOverload)]
        if any(operator.namespace == "prims" for operator in operators):
            # torch's own primitives, which nothing else has
            return None
        if any(operator._schema.is_mutable for operator in operators):
            # some of torch's decompositions write in place
            functional = torch.func.functionalize(traced, remove="mutations")
            traced = make_fx(functional, tracing_mode="real")(*values)
            operators = [n.target for n in traced.graph.nodes if isinstance(n.target, OpOverload)]
            if any(operator._schema.is_mutable for operator in operators):
                # it writes to an argument of the call
                return None
    graph: Graph = traced.graph
    graph.eliminate_dead_code()
    calls = [n for n in graph.nodes if n.op == "call_function"]
    if (len(calls) == 1 and calls[0].target is target) or any(n.op == "get_attr" for n in graph.nodes):
        return None
    return graph


def _instantiate(builder: Builder, node: Node, template: Graph) -> Any:
    copies: dict[Node, Any] = dict(zip(template.find_nodes(op="placeholder"), _operands(node), strict=True))
    for source in template.nodes:
        # What has no value only checks, such as _linalg_check_errors.
        if source.op == "call_function" and "val" in source.meta:
            args, kwargs = map_arg((source.args, source.kwargs), copies.__getitem__)
            copies[source] = builder.call(source.target, *args, val=source.meta["val"], **kwargs)
    results = pytree.tree_map_only(Node, copies.__getitem__, template.output_node().args[0])
    return results
