# SPDX-License-Identifier: Apache-2.0
"""Folds zero padding into convolutions."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import each
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import ANY, Argument, Call, Var
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# The position of an argument of aten.convolution.
_PADDING: Final = 4


def fold_padding(program: EdgeProgram) -> bool:
    """Moves zero padding that is symmetric in each spatial dimension into the convolution."""
    return rewrite(program, _RULES)


def _fold(_: Builder, node: Node, x: Node, zeros: list[Any], padding: Any) -> Node | None:
    amounts = _symmetric(zeros, len(node.meta["val"].shape) - 2)
    if amounts is None:
        return None
    total = [own + more for own, more in zip(each(padding, len(amounts)), amounts, strict=True)]
    node.args = (x, *node.args[1:_PADDING], total, *node.args[_PADDING + 1 :])
    return node


def _symmetric(amounts: list[Any], spatial: int) -> list[int] | None:
    """Returns the padding on each side of each spatial dimension, if both sides have the same."""
    if any(not isinstance(amount, int) or amount < 0 for amount in amounts):
        return None
    # pairs (before, after) from the last dimension to the first
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (spatial + 2 - len(pairs)) + pairs
    if any(before != after for before, after in pairs) or any(pair != (0, 0) for pair in pairs[:-spatial]):
        return None
    return [before for before, _ in pairs[-spatial:]]


_PADDED: Final = Call(aten.constant_pad_nd.default, Var("x"), Argument("zeros"), 0)
_ARGUMENTS: Final = (_PADDED, ANY, ANY, ANY, Argument("padding"), ANY, False)
_RULES: Final = fusion(Call(aten.convolution.default, *_ARGUMENTS, ...), _fold)
