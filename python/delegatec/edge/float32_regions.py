# SPDX-License-Identifier: Apache-2.0
"""Calls that a model computes in float32 even if its weights have half precision.

Models convert to float32 where half precision is not enough, as in `scores.float().softmax(-1).type_as(x)` or
in the norms of language models. In a float32 model, such conversions have no effect, and passes remove them.
Backends that compute in float16 need to know of them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from delegatec.edge.arguments import bind, tensors
from delegatec.edge.source import frames_of

aten = torch.ops.aten

FLOAT32: Final = "float32"
"""Key in a node's metadata: True for a call to compute in float32."""

_CONVERSIONS: Final = (
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.device,
    aten._to_copy.default,
)
# They convert to the dtype of another tensor.
_LIKE: Final = (aten.type_as.default, aten.to.other)
# Their operands have one dtype; eager mode fails on others.
_UNPROMOTED: Final = frozenset(
    {
        "addbmm",
        "addmm",
        "addmv",
        "baddbmm",
        "bilinear",
        "bmm",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "einsum",
        "linear",
        "matmul",
        "mm",
        "mv",
        "scaled_dot_product_attention",
    }
)
# In a line of code, float32 by its name rather than as the dtype of another value.
_NAMED: Final = re.compile(r"\bfloat32\b|\btorch\.float\b|\.float\(")


def float32_calls(graph: Graph) -> set[Node]:
    """Returns the calls of a float32 program that its author computes in float32.

    A region starts with a conversion to float32 by name, or a softmax or another operator with the argument
    `dtype=torch.float32`. It contains the calls that depend on these, as far as types are promoted, and ends
    with the next conversion: to the dtype of another value, which is float32, too, unless the model has half
    precision. One that ends with a layer would fail in a model of half precision, whose weights have another
    dtype: its start says nothing about half precision.

    Args:
        graph: of an exported program, with stack traces.
    """
    calls = [node for node in graph.nodes if node.op == "call_function"]
    ignored: set[Node] = set()
    while True:
        starts: dict[Node, frozenset[Node]] = {}
        failing: set[Node] = set()
        for node in calls:
            found = _starts(node, starts, failing)
            if found - ignored:
                starts[node] = found - ignored
        failing -= ignored
        if not failing:
            break
        ignored |= failing
    wide = set(starts)
    for node in reversed(calls):
        if node.users and _is_converted_integer(node) and all(user in wide for user in node.users):
            wide.add(node)
    return wide


def mark(nodes: Iterable[Node], handles: Collection[int]) -> None:
    """Marks the calls that come from nodes with certain debug handles."""
    for node in nodes:
        if node.op == "call_function" and node.meta["debug_handle"] in handles:
            node.meta[FLOAT32] = True


def _starts(node: Node, starts: Mapping[Node, frozenset[Node]], failing: set[Node]) -> frozenset[Node]:
    """Returns the starts of the regions that contain a call.

    Args:
        node: the call.
        starts: those of the calls before it.
        failing: receives the starts of regions that the call would fail in.
    """
    if not _is_float32(node):
        return frozenset()
    operands = [each for each in node.all_input_nodes if _is_float32(each)]
    inherited = frozenset[Node]().union(*(starts[each] for each in operands if each in starts))
    if not isinstance(node.target, OpOverload):
        return inherited if node.target is operator.getitem else frozenset()
    if node.target in _LIKE:
        other: Any = node.args[1]
        return starts.get(other, frozenset())
    if node.target in _CONVERSIONS:
        starts_here = not inherited and bool(operands) and bind(node)["dtype"] is not None and _is_named(node)
        return frozenset({node}) if starts_here else frozenset()
    if bind(node).get("dtype") is torch.float32 and operands and not inherited:
        return frozenset({node}) if "softmax" in node.target._opname or _is_named(node) else frozenset()
    if node.target._opname in _UNPROMOTED and not all(
        each in starts or _is_converted_integer(each) for each in operands
    ):
        failing |= inherited
        return frozenset()
    return inherited


def _is_converted_integer(node: Node) -> bool:
    """Whether a value is that of integers, or a view of it."""
    while node.op == "call_function" and node.target not in _CONVERSIONS:
        if not isinstance(node.target, OpOverload) or not node.target.is_view:
            return False
        node = node.all_input_nodes[0]
    source: Any = node.args[0] if node.target in _CONVERSIONS else None
    value = source.meta.get("val") if isinstance(source, Node) else None
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point


def _is_float32(node: Node) -> bool:
    return any(value.dtype == torch.float32 for value in tensors(node.meta.get("val")))


def _is_named(node: Node) -> bool:
    frames = frames_of(node.meta.get("stack_trace") or "")
    return bool(frames) and _NAMED.search(frames[-1].text) is not None
