# SPDX-License-Identifier: Apache-2.0
"""Rewrites of functions of symbolic scalars to the runtime's primitives."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.builder import Builder

# Longer chains of products do not pay off.
_LARGEST_EXPONENT: Final = 8

Rewrite = Callable[[Builder, Node], Node | None]


def _floor(b: Builder, node: Node) -> Node:
    return b.call(operator.neg, b.call(math.ceil, b.call(operator.neg, node.args[0])), val=node.meta["val"])


def _and(b: Builder, node: Node) -> Node:
    left, right = node.args
    return b.call(torch.sym_ite, left, right, False, val=node.meta["val"])


def _or(b: Builder, node: Node) -> Node:
    left, right = node.args
    return b.call(torch.sym_ite, left, True, right, val=node.meta["val"])


def _pow(b: Builder, node: Node) -> Node | None:
    base, exponent = node.args
    if not isinstance(base, Node) or not isinstance(exponent, int) or not 1 < exponent <= _LARGEST_EXPONENT:
        return None
    result = base
    for _ in range(exponent - 1):
        result = b.call(operator.mul, result, base)
    return result


def _round(b: Builder, node: Node) -> Node | None:
    """Supports rounding to an integer; torch.export writes out the number of digits."""
    value, *digits = node.args
    return b.call(round, value, val=node.meta["val"]) if digits in ([0], [None]) else None


SYMBOLIC_REWRITES: Final[Mapping[Any, Rewrite]] = {
    math.floor: _floor,
    operator.and_: _and,
    operator.or_: _or,
    operator.pow: _pow,
    round: _round,
}
