# SPDX-License-Identifier: Apache-2.0
"""Analysis of rows whose two halves are equal, such as the angles of rotary embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.transparent import overloads
from delegatec.edge.arguments import bind, operand_nodes, positive

aten = torch.ops.aten

_SCALAR_OVERLOADS: Final = "mul.Scalar add.Scalar sub.Scalar div.Scalar"
_ELEMENTWISE: Final = frozenset(
    overloads(f"_to_copy clone cos sin neg mul.Tensor add.Tensor sub.Tensor div.Tensor {_SCALAR_OVERLOADS}")
)
_RESHAPES: Final = frozenset(overloads("view unsqueeze squeeze.dims expand"))
_CHOICES: Final = frozenset(overloads("slice.Tensor index_select select.int"))


def has_equal_halves(node: Node, constants: Mapping[str, torch.Tensor]) -> bool:
    """Whether the two halves of each row of a node are known to be equal.

    Args:
        node: a tensor; its rows are its last dimension.
        constants: name of a placeholder -> its tensor, see `EdgeProgram.fixed_constants`.
    """
    pending, seen = [node], {node}
    while pending:
        sources = _sources(pending.pop(), constants)
        if sources is None:
            return False
        pending += [each for each in sources if each not in seen]
        seen.update(sources)
    return True


def _sources(node: Node, constants: Mapping[str, torch.Tensor]) -> list[Node] | None:
    """Returns operands from whose halves it follows that those of a node are equal; none if it does not."""
    size = _width(node)
    if size == 1:
        return []
    if size is None or size % 2:
        return None
    if node.name in constants:
        return [] if torch.equal(*constants[node.name].chunk(2, -1)) else None
    if node.target in _ELEMENTWISE:
        return operand_nodes(node)
    if node.target is aten.embedding.default:
        return [bind(node)["weight"]]
    if node.target is aten.cat.default:
        parts = bind(node)["tensors"]
        if not _is_last(node, node):
            return list(parts)
        return [] if len(parts) == 2 and parts[0] is parts[1] else None
    if node.target in _RESHAPES:
        (source,) = operand_nodes(node)
        return [source] if _width(source) == size else None
    if node.target in _CHOICES:
        source = bind(node)["self"]
        return None if _is_last(node, source) else [source]
    return None


def _width(node: Node) -> int | None:
    """Returns the size of the last dimension, which is 1 for a scalar; none if it is symbolic."""
    shape = node.meta["val"].shape
    size = shape[-1] if shape else 1
    return size if isinstance(size, int) else None


def _is_last(node: Node, source: Node) -> bool:
    """Whether the dimension of a call is the last one of a tensor."""
    rank = len(source.meta["val"].shape)
    return positive(bind(node)["dim"], rank) == rank - 1
