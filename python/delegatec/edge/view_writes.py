# SPDX-License-Identifier: Apache-2.0
"""Rewrites in-place operators on views to functional ones, without tracing.

A write to a view defines a new value of the view, of the views that it is taken of, and so of the complete
tensor (`slice_scatter` and its like). Other views of that tensor, if used later, are taken of the new value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, writes
from delegatec.edge.builder import Builder
from delegatec.edge.functionalize import (
    buffer_names,
    functional_overload,
    is_view_or_copy,
    keeps_type,
    leave,
    may_be_view,
    may_view_several,
    mutations,
    storage_roots,
)
from delegatec.edge.program import EdgeProgram
from delegatec.edge.source import location_of
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten

# A view, its new value, and the old value of the tensor that it is a view of -> the new value of that tensor.
_Inverse = Callable[[Builder, dict[str, Any], Node, Node], Node]


def _reshaped(builder: Builder, _: dict[str, Any], new: Node, base: Node) -> Node:
    val = base.meta["val"]
    if same_sizes(new.meta["val"].shape, val.shape):
        return new
    return builder.call(aten.view.default, new, list(val.shape), val=val)


def _scattered(scatter: OpOverload, *names: str) -> _Inverse:
    def inverse(builder: Builder, bound: dict[str, Any], new: Node, base: Node) -> Node:
        return builder.call(scatter, base, new, *(bound[name] for name in names), val=base.meta["val"])

    return inverse


def _transposed(builder: Builder, bound: dict[str, Any], new: Node, base: Node) -> Node:
    return builder.call(aten.transpose.int, new, bound["dim0"], bound["dim1"], val=base.meta["val"])


def _permuted(builder: Builder, bound: dict[str, Any], new: Node, base: Node) -> Node:
    rank = len(bound["dims"])
    order = [dim % rank for dim in bound["dims"]]
    inverse = [order.index(dim) for dim in range(rank)]
    return builder.call(aten.permute.default, new, inverse, val=base.meta["val"])


def _windows(builder: Builder, bound: dict[str, Any], new: Node, base: Node) -> Node:
    """Replaces the elements at each position of all windows, which do not overlap, at once."""
    val, step = base.meta["val"], bound["step"]
    if not val.dim():
        return _reshaped(builder, bound, new, base)
    dim = bound["dimension"] % val.dim()
    length = (new.meta["val"].shape[dim] - 1) * step + 1
    for position in range(bound["size"]):
        part = builder.call(aten.select.int, new, -1, position)
        end = position + length
        base = builder.call(aten.slice_scatter.default, base, part, dim, position, end, step, val=val)
    return base


_RESHAPES: Final = "alias detach squeeze unflatten unsqueeze view view_as"
# Operators whose result is a view -> how a write to it changes the tensor.
_INVERSES: Final[Mapping[str, _Inverse]] = {
    **dict.fromkeys(_RESHAPES.split(), _reshaped),
    "diagonal": _scattered(aten.diagonal_scatter.default, "offset", "dim1", "dim2"),
    "permute": _permuted,
    "select": _scattered(aten.select_scatter.default, "dim", "index"),
    "slice": _scattered(aten.slice_scatter.default, "dim", "start", "end", "step"),
    "transpose": _transposed,
    "unfold": _windows,
}


def write_complete_operands(program: EdgeProgram) -> None:
    """Replaces writes to windows of `unfold` by writes to the complete operand of `unfold`.

    torch's functionalization sets the elements of the operand that are in no window to zero.

    Raises:
        DelegatecError: DC205 if the write has no functional form.
    """
    found = [(node, views) for node in mutations(program) if (views := _views_up_to_windows(node))]
    if not found:
        return
    # the outputs of bodies do not have the form yet that analyses expect
    builder, problems = Builder(program, Facts({})), []
    for node, views in found:
        functional = functional_overload(node.target)
        if functional is None or not keeps_type(builder, node) or not all(map(_is_invertible, views)):
            problems.append(_windows_written(node))
            continue
        new = builder.at(node).call(functional, *node.args, val=node.meta["val"], **node.kwargs)
        for view in views:
            assert isinstance(view.args[0], Node)
            new = _INVERSES[_opname(view)](builder, bind(view), new, view.args[0])
        base = views[-1].args[0]
        assert isinstance(base, Node)
        builder.call(aten.copy_.default, base, new, val=base.meta["val"])
        node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
        program.graph.erase_node(node)
    if problems:
        raise DelegatecError(problems)


def _views_up_to_windows(node: Node) -> list[Node]:
    """Returns the views that a mutation writes through, from the one that it writes to.

    The last one is the windows that are taken first; without any, there are none.
    """
    views, written = [], node.args[0] if node.args else None
    while isinstance(written, Node) and (may_be_view(written) or writes(written)):
        if not writes(written):
            views.append(written)
        written = written.args[0]
    while views and _opname(views[-1]) != "unfold":
        views.pop()
    return views


def _opname(node: Node) -> str:
    return node.target._opname if isinstance(node.target, OpOverload) else ""


def _windows_written(node: Node) -> Diagnostic:
    return Diagnostic(
        "DC205",
        f"{node.target} writes to windows of unfold",
        location=location_of(node.meta.get("stack_trace")),
        node=node.name,
        expected="writes by operators that have a form without a write",
        help="write to slices of the tensor instead",
    )


def functionalize_views(program: EdgeProgram) -> bool:
    """Replaces all mutations, also those through views, or none.

    Returns:
        False if one has no local functional form: it writes to an input, or by an operator that is not in the
        table, or it is not known which values observe it. The program is then unchanged.
    """
    found = mutations(program)
    if not found:
        return True
    roots, builder = storage_roots(program.graph), Builder(program)
    written = set(found)
    last = {roots[node]: position for position, node in enumerate(program.graph.nodes) if node in written}
    buffers = buffer_names(program)
    if not all(root.op == "call_function" or root in buffers for root in last):
        return False
    if not all(_is_known(node, position, roots, last) for position, node in enumerate(program.graph.nodes)):
        return False
    if not all(_is_simple(builder, node, roots) for node in found):
        return False
    values = _Rewriter(program, builder, roots, found).run()
    leave(program, {buffers[root]: values[root] for root in last if root in buffers})
    return True


def _is_known(node: Node, position: int, roots: Mapping[Node, Node], last: Mapping[Node, int]) -> bool:
    """Whether it is known which writes the results of `node` observe, given the last write to each tensor."""
    if may_view_several(node):
        tensors = node.all_input_nodes
        return node not in last and all(last.get(roots[each], -1) < position for each in tensors)
    is_known = isinstance(node.target, OpOverload) or node.target is operator.getitem
    is_known = is_known and not is_view_or_copy(node)
    return is_known or not may_be_view(node) or last.get(roots[node], -1) < position


def _is_simple(builder: Builder, node: Node, roots: Mapping[Node, Node]) -> bool:
    """Whether `node` is an in-place operator on a chain of views in the table, with a functional form."""
    assert isinstance(node.target, OpOverload)
    written = bind(node).get("self")
    if functional_overload(node.target) is None or written is not node.args[0]:
        return False
    if not isinstance(written, Node) or not keeps_type(builder, node):
        return False
    while written is not roots[node]:
        base = written.args[0]
        assert isinstance(base, Node)
        if not writes(written) and not _is_invertible(written):
            return False
        written = base
    return True


def _is_invertible(view: Node) -> bool:
    base = view.args[0]
    if not isinstance(base, Node) or _opname(view) not in _INVERSES:
        return False
    if view.meta["val"].dtype != base.meta["val"].dtype:  # the bits as another dtype
        return False
    is_static = all(type(size) is int for size in base.meta["val"].shape)
    return is_static or _INVERSES[_opname(view)] is not _reshaped


class _Rewriter:
    """Rewrites a program from first to last, and keeps the current value of each written tensor and view.

    Args:
        program: edited in place.
        builder: of the program.
        roots: node -> the node that defines its memory.
        found: the mutations.
    """

    def __init__(
        self, program: EdgeProgram, builder: Builder, roots: Mapping[Node, Node], found: Sequence[Node]
    ) -> None:
        self._program = program
        self._builder = builder
        self._roots = roots
        self._found = found
        # Root -> the number of writes so far; node -> that number when its value was found, and the value.
        self._versions = dict.fromkeys((roots[node] for node in found), 0)
        self._values: dict[Node, tuple[int, Node]] = {}
        self._viewed: dict[Node, Any] = {
            node: node.args[0] for node, root in roots.items() if root in self._versions and node is not root
        }

    def run(self) -> dict[Node, Node]:
        """Returns the last value of each written tensor."""
        found = set(self._found)
        for node in list(self._program.graph.nodes):
            self._builder.at(node)
            for operand in node.all_input_nodes:
                current = self._current(operand)
                if current is not operand:
                    node.replace_input_with(operand, current)
            if node in found:
                self._write(node)
            elif self._roots[node] in self._versions:
                self._values[node] = self._versions[self._roots[node]], node
        for node in reversed(self._found):
            self._program.graph.erase_node(node)
        return {root: self._current(root) for root in self._versions}

    def _current(self, node: Node) -> Node:
        """Returns the value of a node now, and takes a view again if its tensor was written to since."""
        version = self._versions.get(self._roots[node])
        if version is None:
            return node
        known, value = self._values[node]
        if known != version:
            value = self._current(self._viewed[node])
            if not writes(node):
                value = self._builder.call(
                    node.target, value, *node.args[1:], val=node.meta["val"], **node.kwargs
                )
            self._values[node] = version, value
        return value

    def _write(self, node: Node) -> None:
        assert isinstance(node.target, OpOverload)
        functional = functional_overload(node.target)
        assert functional is not None
        new = self._builder.call(functional, *node.args, val=node.meta["val"], **node.kwargs)
        root = self._roots[node]
        version = self._versions[root] + 1
        self._values[node] = version, new
        view: Node = self._viewed[node]
        while view is not root:
            self._values[view], part = (version, new), view
            view = self._viewed[part]
            if not writes(part):
                new = _INVERSES[_opname(part)](self._builder, bind(part), new, self._current(view))
        self._values[root] = version, new
        self._versions[root] = version
