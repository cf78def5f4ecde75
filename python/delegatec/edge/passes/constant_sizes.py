# SPDX-License-Identifier: Apache-2.0
"""Evaluates calls on constants that must be computed before all else.

Sizes that depend on data, as of `torch.unique` or `repeat_interleave`, are symbols in the exported program,
because torch.export has no values. The values of constants are known here: the call is computed, or its
indices are, and the symbol becomes a constant everywhere. Complex constants may come from functions that the
rewrite to real numbers does not have, such as eigenvalues.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import torch
from sympy import sympify
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from delegatec.edge.arguments import bind
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram
from delegatec.edge.substitution import substitute

aten = torch.ops.aten

_MOST: Final = 2**22
"""Maximum number of elements of the operands of a call that is computed here."""
_FEW: Final = 2**12
"""Maximum number of elements of a complex value that is computed here."""
_BINDINGS: Final = "unbacked_bindings"
"""Key of the metadata of a call that maps its data-dependent symbols to positions in its result."""


def resolve_constant_sizes(program: EdgeProgram) -> bool:
    """Replaces data-dependent sizes whose operands are constants by integers."""
    sized = [node for node in program.graph.nodes if _is_urgent(node)]
    if not sized:
        return False
    values = _Values(program)
    known: dict[Any, Any] = {}
    for node in sized:
        symbols, value = node.meta.get(_BINDINGS) or {}, values.of(node)
        counts: dict[Any, Any] = {}
        if value is not None:
            counts = {symbol: pytree.key_get(value, path) for symbol, path in symbols.items()}
            for result in list(node.users) if isinstance(value, (tuple, list)) else [node]:
                if isinstance(values.of(result), Tensor):
                    result.replace_all_uses_with(values.constant(result, values.of(result)))
        elif node.target in _SELECTIONS:
            count = _SELECTIONS[node.target](node, values)
            counts = {} if count is None else dict.fromkeys(symbols, count)
        known |= {symbol: sympify(count) for symbol, count in counts.items()}
    is_changed = values.declare()
    if known or is_changed:
        substitute(program, known)
    return bool(known) or is_changed


def _is_urgent(node: Node) -> bool:
    """Whether a result is complex, or a size depends on data.

    A size has no symbol if torch knows it from another operand.
    """
    if node.meta.get(_BINDINGS) or node.target is aten.repeat_interleave.self_Tensor:
        return True
    val = node.meta.get("val")
    if any(map(_is_small_complex, val if isinstance(val, (tuple, list)) else (val,))):
        return node.op == "call_function"
    if node.target is aten.index.Tensor:
        return any(each.meta["val"].dtype == torch.bool for each in bind(node)["indices"] if each is not None)
    return isinstance(node.target, OpOverload) and _has_dynamic_shape(node.target)


@cache
def _has_dynamic_shape(target: OpOverload) -> bool:
    return torch.Tag.dynamic_output_shape in target.tags


def _is_small_complex(val: Any) -> bool:
    if not isinstance(val, Tensor) or not val.dtype.is_complex:
        return False
    return all(isinstance(size, int) for size in val.shape) and val.numel() <= _FEW


class _Values:
    """Values of calls on constants, computed on demand.

    Args:
        program: the program; constants that it writes to have no value.
    """

    def __init__(self, program: EdgeProgram) -> None:
        fixed = set(program.fixed_constants())
        self._made = NewConstants(program)
        self._known: dict[Node, Any] = {
            node: program.constants[node.name] for node in program.placeholders() if node.name in fixed
        }
        # calls on constants alone, and their positions
        self._calls: dict[Node, int] = {}
        for position, node in enumerate(program.graph.nodes):
            if _is_computable(node) and all(
                operand in self._calls or operand in self._known for operand in node.all_input_nodes
            ):
                self._calls[node] = position

    def of(self, node: Any) -> Any:
        """Returns the value of a node, or None if it is not constant, or too large."""
        if node not in self._known and node in self._calls:
            needed, waiting = {node}, [node]
            while waiting:
                new = {each for each in waiting.pop().all_input_nodes if each not in self._known} - needed
                needed |= new
                waiting += new
            for each in sorted(needed, key=self._calls.__getitem__):
                self._known[each] = self._compute(each)
        return self._known.get(node)

    def constant(self, like: Node, value: Tensor) -> Node:
        """Adds a constant that is named after a node."""
        constant = self._made.add(like.name, value, like)
        constant.meta = {**constant.meta, "val": _dense(like, value.shape, value.dtype)}
        constant.meta.pop(_BINDINGS, None)
        self._known[constant] = value
        return constant

    def declare(self) -> bool:
        """Declares the new constants, and returns whether there are any."""
        return self._made.declare()

    def _compute(self, node: Node) -> Any:
        operands = pytree.tree_leaves([self._known[operand] for operand in node.all_input_nodes])
        sizes = [each.numel() for each in operands if isinstance(each, Tensor)]
        if any(each is None for each in operands) or sum(sizes) > _MOST:
            return None
        # Strides in memory may differ from those of the exported program.
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: _row_major(self._known[each]))
        target: Any = aten.reshape.default if node.target is aten.view.default else node.target
        with torch.no_grad():
            return target(*args, **kwargs)


def _row_major(value: Any) -> Any:
    return value.contiguous() if isinstance(value, Tensor) else value


def _is_computable(node: Node) -> bool:
    if node.op != "call_function" or not callable(node.target):
        return False
    if not isinstance(node.target, OpOverload):
        return node.target is operator.getitem
    return torch.Tag.nondeterministic_seeded not in node.target.tags and not node.target._schema.is_mutable


def _dense(like: Node, shape: Any, dtype: torch.dtype) -> Tensor:
    (mode,) = {
        each.fake_mode for each in pytree.tree_leaves(like.meta["val"]) if isinstance(each, FakeTensor)
    }
    with mode:
        return torch.empty(shape, dtype=dtype)


# ---- selections of other values by constants -----------------------------------------------------------


def _repeat(node: Node, values: _Values) -> int | None:
    """Repeats elements by an index; returns its size, or None if the repeat counts are not constant."""
    bound = bind(node)
    x, dim, repeats = bound["self"], bound["dim"], values.of(bound["repeats"])
    val = x.meta["val"]
    size = val.numel() if dim is None else val.shape[dim]
    if repeats is None or not isinstance(size, int):
        return None
    if dim is None:
        with node.graph.inserting_before(node):
            x = node.graph.call_function(aten.reshape.default, (x, [-1]))
        x.meta = {**node.meta, "val": _dense(node, [size], val.dtype), _BINDINGS: {}}
    index = torch.repeat_interleave(repeats.expand(size))
    _become(node, aten.index_select.default, (x, dim or 0, values.constant(node, index)))
    return index.numel()


def _by_mask(node: Node, values: _Values) -> int | None:
    """Selects by the positions in the only mask; returns their number, or None if it is not constant."""
    bound = bind(node)
    given = bound.get("indices") or [bound["mask"]]
    if [each is not None and each.meta["val"].dtype == torch.bool for each in given].count(True) != 1:
        return None
    count, indices = None, list[Node | None]()
    for each in given:
        if each is None or each.meta["val"].dtype != torch.bool:
            indices.append(each)
            continue
        mask = values.of(each)
        if mask is None or (node.target is aten.masked_select.default and mask.dim() != _rank(bound["self"])):
            return None
        coordinates = mask.nonzero(as_tuple=True)
        count = coordinates[0].numel()
        indices += [values.constant(node, coordinate) for coordinate in coordinates]
    _become(node, aten.index.Tensor, (bound["self"], indices))
    return count


def _rank(node: Node) -> int:
    rank: int = node.meta["val"].dim()
    return rank


def _become(node: Node, target: OpOverload, args: tuple[Any, ...]) -> None:
    node.target, node.args, node.kwargs = target, args, {}
    node.meta.pop(_BINDINGS, None)


_SELECTIONS: Final[Mapping[Any, Callable[[Node, _Values], int | None]]] = {
    aten.repeat_interleave.self_Tensor: _repeat,
    aten.index.Tensor: _by_mask,
    aten.masked_select.default: _by_mask,
}
