# SPDX-License-Identifier: Apache-2.0
"""Removal of strides: tensors inside a program are dense and row-major, inputs and outputs may differ."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.builder import Builder
from delegatec.edge.memory_order import is_dense, is_row_major
from delegatec.edge.program import EdgeProgram
from delegatec.edge.source import location_of

# torch.channels_last: the dimensions from outermost to innermost in memory. It is the only other order that
# the runtime's Python interface accepts (ExecuTorch 1.4.1, measured).
CHANNELS_LAST: Final = (0, 2, 3, 1)

# Dtypes that kernels for dim orders do not support: ExecuTorch 1.4.1, dim_order_ops.
_NOT_CONVERTED: Final = frozenset({torch.uint16, torch.uint32, torch.uint64})

# By name: the operators exist only if the peer is imported.
_ORDERED: Final[dict[str, OpOverload]] = {
    "dim_order_ops::_clone_dim_order": torch.ops.aten.clone.default,
    "dim_order_ops::_to_dim_order_copy": torch.ops.aten._to_copy.default,
}
_STRIDED: Final = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)


def reject_strides(program: EdgeProgram) -> None:
    """Raises errors for results that depend on strides.

    Raises:
        DelegatecError: DC205, for each `as_strided` of a tensor that is not all of its memory in
            row-major order, and each channels-last input that no kernel reorders.
    """
    rejected = [
        Diagnostic(
            "DC205",
            f"{node.name} addresses the memory of a view by strides",
            location=location_of(node.meta.get("stack_trace")),
            node=node.name,
            expected="as_strided of a contiguous tensor: programs have no strides",
            help="call contiguous() and clone() first, or use slice, permute, expand or unfold",
        )
        for each in program.walk()
        for node in each.graph.nodes
        if node.op == "call_function" and node.target in _STRIDED
        if not _covers_storage(node.args[0].meta["val"])
    ]
    rejected += [
        Diagnostic(
            "DC205",
            f"example input {node.name} is channels-last with dtype {node.meta['val'].dtype}",
            node=node.name,
            expected="a dtype that the runtime can reorder",
            help="pass it contiguous, or as int32",
        )
        for node in program.user_inputs()
        if node.name in program.dim_orders and node.meta["val"].dtype in _NOT_CONVERTED
    ]
    if rejected:
        raise DelegatecError(rejected)


def _covers_storage(val: torch.Tensor) -> bool:
    # torch cannot compare the strides of dynamic sizes
    is_static = all(isinstance(size, int) for size in val.shape)
    return is_static and val.is_contiguous() and val.nbytes == val.untyped_storage().nbytes()


def record_dim_orders(program: EdgeProgram) -> None:
    """Records which inputs and outputs are channels-last, before strides are dropped.

    Inputs have the layout of their examples: channels-last, or else row-major, since callers cannot pass
    other orders. Ambiguous layouts, as with one channel, are row-major. If an input is channels-last, outputs
    have the layout of eager mode's, else they are row-major.

    Args:
        program: the method; sets `dim_orders` and `output_orders`.
    """
    program.dim_orders = {
        node.name: CHANNELS_LAST for node in program.user_inputs() if _is_channels_last(node.meta.get("val"))
    }
    program.output_orders = {
        position: CHANNELS_LAST
        for position, result in enumerate(program.user_outputs() if program.dim_orders else ())
        if isinstance(result, Node)
        and _is_channels_last(result.meta.get("val"))
        and _has_orders(result.meta["val"])
    }


def force_channels_last(program: EdgeProgram, *, inputs: bool, outputs: bool) -> None:
    """Makes inputs and outputs with four dimensions channels-last, unless that is ambiguous.

    Args:
        program: the method; sets `dim_orders` and `output_orders`. Its graph does not change.
        inputs: whether to change all inputs of a dtype that the runtime can reorder.
        outputs: whether to change all such outputs.
    """
    if inputs:
        program.dim_orders |= {
            node.name: CHANNELS_LAST for node in program.user_inputs() if _has_orders(node.meta.get("val"))
        }
    if outputs:
        program.output_orders |= {
            position: CHANNELS_LAST
            for position, result in enumerate(program.user_outputs())
            if isinstance(result, Node) and _has_orders(result.meta.get("val"))
        }


def _has_orders(val: Any) -> bool:
    """Whether a value is stored differently if it is channels-last."""
    if not isinstance(val, torch.Tensor) or val.dim() != 4 or val.dtype in _NOT_CONVERTED:
        return False
    _, channels, height, width = (statically_known_true(size == 1) for size in val.shape)
    return not channels and not (height and width)


def _is_channels_last(val: Any) -> bool:
    if not isinstance(val, torch.Tensor) or val.dim() != 4 or is_row_major(val):
        return False
    return is_dense(val, CHANNELS_LAST)


def drop_strides(program: EdgeProgram) -> None:
    """Makes every value dense and row-major, and removes memory formats from calls.

    Args:
        program: the method, or a body, without nested bodies.
    """
    builder = Builder(program)
    for node in program.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = builder.dense(_apart(builder, node.meta["val"]))
        if node.op == "call_function":
            _drop_dim_order(node)
            _drop_memory_format(node)


def _apart(builder: Builder, val: Any) -> Any:
    """Returns the value without its base.

    An example input that is a view, such as a batch's first element, has memory of a symbolic size, and so
    have its views; reading that size adds a guard in torch, although all sizes are static.
    """
    if isinstance(val, (tuple, list)):
        return type(val)(_apart(builder, item) for item in val)
    if not isinstance(val, torch.Tensor) or val.layout is not torch.strided:
        return val
    if isinstance(val.untyped_storage().nbytes(), int):
        return val
    static = all(isinstance(size, int) for size in val.shape)
    return builder.empty(val.shape, val.dtype) if static else val


def _drop_dim_order(node: Node) -> None:
    """Replaces an operator with a dim order, which the peer's quantizer may insert, with that of ATen."""
    name = node.target._schema.name if isinstance(node.target, OpOverload) else ""
    if name in _ORDERED:
        node.target = _ORDERED[name]
        node.kwargs = {key: value for key, value in node.kwargs.items() if key != "dim_order"}


def _drop_memory_format(node: Node) -> None:
    """Removes the memory format of a call; every operator works without one."""
    node.args = tuple(None if isinstance(value, torch.memory_format) else value for value in node.args)
    node.kwargs = {
        name: value for name, value in node.kwargs.items() if not isinstance(value, torch.memory_format)
    }
