# SPDX-License-Identifier: Apache-2.0
"""Rewrites in-place operators to functional ones, without tracing.

torch.export keeps operators such as `relu_`. If the written tensor is the complete result of an operator, or
a complete buffer, and no view observes the write, then the write defines a new value for all later uses, and
the buffer's final value. `view_writes` replaces writes that views observe. All others, such as those to
inputs, need torch's functionalization of the complete program, which is the caller's fallback.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, cast

import torch
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, writes
from delegatec.edge.builder import Builder
from delegatec.edge.passes.remove_identities import is_identity
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

# There is only one device and one layout.
_CONVERSIONS: Final = frozenset({torch.ops.aten.to.dtype, torch.ops.aten.to.dtype_layout})


def mutations(program: EdgeProgram) -> list[Node]:
    """Returns the nodes that write to an argument, without in-place operators that have no effect."""
    return [
        node
        for node in program.graph.nodes
        if node.op == "call_function"
        and isinstance(node.target, OpOverload)
        and node.target._schema.is_mutable
        and not is_identity(program, node)
    ]


def functionalize(program: EdgeProgram) -> bool:
    """Replaces all mutations, or none.

    Returns:
        False if a mutation has no local functional form; the program is then equivalent to before.
    """
    found = mutations(program)
    if not found:
        return True
    _drop_other_names(program)
    if any(map(may_view_several, program.graph.nodes)):
        return False
    roots = storage_roots(program.graph)
    order = {node: position for position, node in enumerate(program.graph.nodes)}
    buffers = buffer_names(program)
    builder = Builder(program)
    if not all(_is_local(node, roots, buffers) and keeps_type(builder, node) for node in found):
        return False
    if _is_seen_by_views(found, roots, order):
        return False
    lasting: dict[str | None, Node] = {}
    for node in found:
        assert isinstance(node.target, OpOverload)
        functional = functional_overload(node.target)
        written = node.args[0]
        assert functional is not None and isinstance(written, Node)
        for user in list(written.users):
            if order[user] > order[node]:
                user.replace_input_with(written, node)
        node.target = functional
        if roots[node] in buffers:
            lasting[buffers[roots[node]]] = node
    leave(program, lasting)
    return True


def separate_carried_values(program: EdgeProgram) -> None:
    """Copies values that a loop carries if they share memory: torch's functionalization rejects them."""
    aten = torch.ops.aten
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.while_loop):
        roots, builder = storage_roots(program.graph), Builder(program, Facts({})).at(node)
        condition, body, carried, *others = node.args
        seen = {roots[each] for group in others for each in group if isinstance(each, Node)}
        separate = []
        for each in carried:
            if isinstance(each, Node) and isinstance(each.meta["val"], torch.Tensor):
                each = builder.call(aten.clone.default, each) if roots[each] in seen else each
                seen.add(roots.get(each, each))
            separate.append(each)
        # tuples: torch concatenates them, and files have lists
        node.args = (condition, body, tuple(separate), *map(tuple, others))


def buffer_names(program: EdgeProgram) -> dict[Node, str | None]:
    """Returns the placeholder of each buffer -> its fully qualified name."""
    return {
        node: spec.target
        for node, spec in zip(program.placeholders(), program.input_specs, strict=True)
        if spec.kind is InputKind.BUFFER
    }


def _drop_other_names(program: EdgeProgram) -> None:
    """Erases operators that return the tensor itself, which may be written to; results become aliases.

    torch's functionalization does not know that of dropout.
    """
    for node in list(program.graph.nodes):
        if not returns_operand(node):
            continue
        if any(user.op == "output" for user in node.users):
            node.target, node.args, node.kwargs = torch.ops.aten.alias.default, node.args[:1], {}
        else:
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)


def returns_operand(node: Node) -> bool:
    """Whether a node is a dtype conversion or a dropout that has no effect."""
    if node.target is torch.ops.aten.dropout.default:
        bound = bind(node)
        return not bound["train"] or bound["p"] == 0
    if node.target not in _CONVERSIONS:
        return False
    source, bound = node.args[0], bind(node)
    assert isinstance(source, Node)
    same = bound["dtype"] in (None, source.meta["val"].dtype) and bound["memory_format"] is None
    return same and not bound["copy"]


def leave(program: EdgeProgram, lasting: Mapping[str | None, Node]) -> None:
    """Returns the new values of buffers as the first results, and updates their specs."""
    output = program.output_node()
    results: Any = output.args[0]
    program.output_specs = [
        *(
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), target)
            for target, node in lasting.items()
        ),
        *(
            replace(spec, arg=replace(spec.arg, name=result.name)) if isinstance(result, Node) else spec
            for spec, result in zip(program.output_specs, results, strict=True)
        ),
    ]
    output.args = ((*lasting.values(), *results),)


@cache
def functional_overload(target: OpOverload) -> OpOverload | None:
    """Returns the functional overload of an in-place one: relu for relu_."""
    name = target._opname.removesuffix("_")
    packet = (
        getattr(torch.ops.aten, name, None) if target.namespace == "aten" and name != target._opname else None
    )
    if packet is None or target._overloadname not in packet.overloads():
        return None
    functional: OpOverload = getattr(packet, target._overloadname)
    same = [(a.name, str(a.type)) for a in functional._schema.arguments] == [
        (a.name, str(a.type)) for a in target._schema.arguments
    ]
    return functional if same and not functional._schema.is_mutable else None


def _is_local(node: Node, roots: Mapping[Node, Node], buffers: Container[Node]) -> bool:
    """Whether `node` writes to the complete result of an operator, or to a complete buffer."""
    assert isinstance(node.target, OpOverload)
    written = bind(node).get("self")
    if functional_overload(node.target) is None or not isinstance(written, Node):
        return False
    root = roots[written]
    is_complete = written is root or writes(written)
    return is_complete and (root.op == "call_function" or root in buffers)


def _is_seen_by_views(found: Sequence[Node], roots: Mapping[Node, Node], order: Mapping[Node, int]) -> bool:
    """Whether a view created before the write is used after it."""
    times: dict[Node, list[int]] = {}
    for node in found:
        times.setdefault(roots[node], []).append(order[node])
    for node, root in roots.items():
        if root in times and may_be_view(node) and node.users:
            last = max(order[user] for user in node.users)
            written = bisect_right(times[root], order[node])
            if written < len(times[root]) and times[root][written] < last:
                return True
    return False


def keeps_type(builder: Builder, node: Node) -> bool:
    """Returns whether the functional form has the dtype and sizes of the tensor that `node` writes to.

    A write converts to the tensor's dtype; the functional form of `half.add_(float)` promotes.
    """
    assert isinstance(node.target, OpOverload)
    functional = functional_overload(node.target)
    assert functional is not None
    if functional is torch.ops.aten.copy.default:
        return True
    written = node.meta["val"]
    try:
        result = builder.infer(functional, node.args, dict(node.kwargs))
    except RuntimeError:
        return False  # some operators in C++ reject symbolic sizes; torch decomposes them first
    return bool(result.dtype == written.dtype and sizes_key(result) == sizes_key(written))


def storage_roots(graph: Graph) -> dict[Node, Node]:
    """Returns for each node the node that defines its memory, if operators may return their argument."""
    roots: dict[Node, Node] = {}
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        if node.target is operator.getitem and isinstance(source, Node) and may_view_several(source):
            roots[node] = roots[_tensors_of(source)[node.args[1]]]
        elif may_view_several(node) and len(_tensors_of(node)) == 1:
            roots[node] = roots[_tensors_of(node)[0]]
        else:
            passes_on = isinstance(source, Node) and (may_be_view(node) or writes(node))
            roots[node] = roots[source] if passes_on and isinstance(source, Node) else node
    return roots


def may_be_view(node: Node) -> bool:
    """Returns whether the result of `node` may be a view of its first argument."""
    if node.op != "call_function" or writes(node):
        return False
    if not isinstance(node.target, OpOverload):
        return True
    # `reshape`, `contiguous` and their like return a view or a copy, and their schemas say neither
    return is_view_or_copy(node) or any(r.alias_info is not None for r in node.target._schema.returns)


def is_view_or_copy(node: Node) -> bool:
    """Returns whether the result of `node` is a view or a copy, depending on strides, dtypes or a mode."""
    return isinstance(node.target, OpOverload) and node.target._opname in _MAYBE_VIEWS


def undeclared_views(nodes: Iterable[Node]) -> dict[OpOverload, Callable[..., Any]]:
    """Returns decompositions of operators whose results may be views, although their schemas do not say so.

    torch's functionalization takes these results for new tensors, unless the operators are decomposed.
    """
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    found = {
        node.target
        for node in nodes
        if isinstance(node.target, OpOverload)
        and (may_view_several(node) or node.target is torch.ops.aten.type_as.default)
    }
    return {operator: partial(operator._op_dk, implicit) for operator in found}


def may_view_several(node: Node) -> bool:
    """Returns whether the results of `node` may be views of the tensors of a list."""
    if not isinstance(node.target, OpOverload) or node.target._opname not in _MAYBE_VIEWS_OF_SEVERAL:
        return False
    tensors = _tensors_of(node)
    # einsum of several operands is a product
    return isinstance(tensors, (tuple, list)) and (node.target._opname != "einsum" or len(tensors) == 1)


def _tensors_of(node: Node) -> Any:
    """Returns the list of tensors of a node of `_MAYBE_VIEWS_OF_SEVERAL`; one tensor in some overloads."""
    *_, tensors = node.args[: 2 if cast(OpOverload, node.target)._opname == "einsum" else 1]
    return tensors


_MAYBE_VIEWS: Final = frozenset(
    (
        *(
            "alpha_dropout",
            "atleast_1d",
            "atleast_2d",
            "atleast_3d",
            "conj_physical",
            "contiguous",
            "dropout",
        ),
        *(
            "feature_alpha_dropout",
            "feature_dropout",
            "flatten",
            "ravel",
            "reshape",
            "reshape_as",
            "sum_to_size",
            "to",
        ),
        "type_as",
    )
)
_MAYBE_VIEWS_OF_SEVERAL: Final = frozenset(
    ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "cartesian_prod", "einsum", "meshgrid"]
)
