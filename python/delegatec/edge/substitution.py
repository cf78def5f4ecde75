# SPDX-License-Identifier: Apache-2.0
"""Replacement of symbols of sizes in a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.fx.node import map_aggregate

from delegatec.edge.program import EdgeProgram


def substitute(program: EdgeProgram, known: Mapping[Any, Any]) -> None:
    """Replaces symbols by constants or by other symbols, in shapes and in arguments.

    Args:
        program: edited in place.
        known: symbol -> constant or symbol, of sympy.
    """

    def scalar(value: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return value
        expression = value.node.expr.xreplace(known)
        if expression.is_Integer:
            return int(expression)
        if expression == value.node.expr:
            return value
        return value.node.shape_env.create_symintnode(expression, hint=None)

    def updated(value: Any) -> Any:
        if not isinstance(value, FakeTensor):
            return scalar(value)
        shape, strides = ([scalar(size) for size in sizes] for sizes in (value.shape, value.stride()))
        if all(map(_is, (*shape, *strides), (*value.shape, *value.stride()))):
            return value
        with value.fake_mode:
            return torch.empty_strided(shape, strides, dtype=value.dtype)

    for node in list(program.graph.nodes):
        if "val" not in node.meta:
            continue
        val = node.meta["val"] = map_aggregate(node.meta["val"], updated)
        if isinstance(val, int) and node.op == "call_function":
            node.replace_all_uses_with(val)


def _is(one: Any, other: Any) -> bool:
    return one is other
