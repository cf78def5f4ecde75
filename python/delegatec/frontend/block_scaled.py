# SPDX-License-Identifier: Apache-2.0
"""Layers in MX formats, by torchao or by ExecuTorch's Arm backend, as operators that need neither of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.block_scaled import BLOCK, CONV2D, FORMATS, LINEAR

aten = torch.ops.aten

_SUBCLASS: Final = "MXTensor"
_SCALING: Final = "RCEIL"
_LINEAR: Final = "tosa_mxfp.linear.default"
_CONV2D: Final = "tosa_mxfp.conv2d.default"
_FORMATS: Final = {
    **{str(found.dtype): name for name, found in FORMATS.items() if found.dtype != torch.uint8},
    str(torch.float4_e2m1fn_x2): "fp4e2m1",
    "fp6_e2m3": "fp6e2m3",
    "fp6_e3m2": "fp6e3m2",
    "f8e4m3": "fp8e4m3",
    "f8e5m2": "fp8e5m2",
    "f4e2m1": "fp4e2m1",
    **{name: name for name in FORMATS},
}
"""Format, as torchao's dtype or as the name in the Arm backend -> its name."""
# Scales of a matrix that are stored in tiles.
_ROWS: Final = 128
_COLUMNS: Final = 4


def adopt_block_scaled(program: ExportedProgram) -> None:
    """Replaces layers in MX formats that quantize their inputs, too. Others stay.

    Args:
        program: before its weights are unwrapped.
    """
    count = len(program.graph.nodes)
    for node in list(program.graph.nodes):
        if str(node.target) == _LINEAR:
            _adopt_linear(program, node)
        elif str(node.target) == _CONV2D:
            _adopt_conv2d(program, node)
    specs: list[InputSpec] = []
    placeholders = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
        specs += _unwrapped(program, spec, node)
    program.graph_signature.input_specs[:] = specs
    if len(program.graph.nodes) != count:
        program.graph_module.recompile()


# ---- operators of the Arm backend ----------------------------------------------------------------------


def _adopt_linear(program: ExportedProgram, node: Node) -> None:
    bound: dict[str, Any] = bind(node)
    if bound["block_size"] != BLOCK:
        return
    x, elements, scales, bias, *_ = bound.values()
    _bytes(program, scales)
    node.target, node.args, node.kwargs = LINEAR, (x, elements, scales, bias, _format(bound)), {}


def _adopt_conv2d(program: ExportedProgram, node: Node) -> None:
    bound: dict[str, Any] = bind(node)
    if bound["block_size"] != BLOCK or bound["groups"] != 1:
        return
    x, elements, scales, bias, *_ = bound.values()
    _bytes(program, scales)
    sizes = (list(bound[name]) for name in ("stride", "padding", "dilation"))
    with node.graph.inserting_before(node):
        images = _call(node, aten.permute.default, x, [0, 2, 3, 1])
        found = _call(node, CONV2D, images, elements, scales, bias, *sizes, _format(bound))
    # The node keeps its name, which the signature may have.
    node.target, node.args, node.kwargs = aten.permute.default, (found, [0, 3, 1, 2]), {}


def _format(bound: dict[str, Any]) -> str:
    name, elements = bound["weight_payload_dtype"], dtype_of(bound["weight_qdata"])
    return _FORMATS[name or ("fp4e2m1" if elements == torch.uint8 else str(elements))]


def _bytes(program: ExportedProgram, scales: Node) -> None:
    """Makes scales bytes, if they are a weight of another type."""
    for spec in program.graph_signature.input_specs:
        if spec.arg.name == scales.name and spec.target in program.state_dict:
            program.state_dict[spec.target] = program.state_dict[spec.target].view(torch.uint8)
            scales.meta["val"] = scales.meta["val"].view(torch.uint8)


def _call(like: Node, target: Any, *args: Any) -> Node:
    """Returns a call with the source of another node."""
    node: Node = like.graph.call_function(target, args)
    vals = torch.fx.map_arg(args, lambda each: each.meta["val"])
    with like.meta["val"].fake_mode:
        node.meta = {**like.meta, "val": target(*vals)}
    return node


# ---- weights of torchao --------------------------------------------------------------------------------


def _unwrapped(program: ExportedProgram, spec: InputSpec, node: Node) -> Iterator[InputSpec]:
    """Yields the specs of an input: of the parts of a weight in an MX format, whose products are replaced."""
    weight: Any = program.state_dict.get(spec.target or "")
    if (
        type(weight).__name__ != _SUBCLASS
        or not node.users
        or not all(_is_product(user, node) for user in node.users)
    ):
        yield spec
        return
    activation, name = weight.act_quant_kwargs, _FORMATS.get(str(weight.elem_dtype))
    is_blocked = activation is not None and {weight.block_size, activation.block_size} == {BLOCK}
    if not is_blocked or name is None or weight.elem_dtype != activation.elem_dtype:
        yield spec
        return
    if activation.scaling_mode.name != _SCALING:
        yield spec
        return
    mode = next(iter(node.users)).meta["val"].fake_mode
    parts = {"levels": weight.qdata.unsqueeze(0), "scales": _scales(weight).unsqueeze(0)}
    operands = []
    for part, tensor in parts.items():
        path = f"{spec.target}_{part}"
        with node.graph.inserting_before(node):
            operand = node.graph.placeholder(f"{node.name}_{part}")
        operand.meta = {"val": mode.from_tensor(tensor.contiguous(), static_shapes=True)}
        operands.append(operand)
        program.state_dict[path] = torch.nn.Parameter(tensor.contiguous(), requires_grad=False)
        yield replace(spec, arg=TensorArgument(operand.name), target=path)
    for user in list(node.users):
        x, _, bias = bind(user).values()
        with user.graph.inserting_before(user):
            product = _call(user, LINEAR, x, *operands, bias, name)
        user.target, user.args, user.kwargs = aten.to.dtype, (product, dtype_of(user)), {}
    program.graph.erase_node(node)
    del program.state_dict[spec.target]


def _is_product(user: Node, weight: Node) -> bool:
    return user.target is aten.linear.default and user.args[1] is weight and user.args[0] is not weight


def _scales(weight: Any) -> torch.Tensor:
    """Returns the scales of a matrix, by rows."""
    rows, columns = weight.shape[0], weight.shape[1] // BLOCK
    scales: torch.Tensor = weight.scale.view(torch.uint8)
    if not weight.is_swizzled_scales:
        return scales.reshape(rows, columns)
    tall, wide = -(-rows // _ROWS), -(-columns // _COLUMNS)
    tiles = scales.reshape(tall, wide, 32, _ROWS // 32, _COLUMNS).transpose(2, 3)
    unswizzled = tiles.reshape(tall, wide, _ROWS, _COLUMNS).transpose(1, 2)
    return unswizzled.reshape(tall * _ROWS, wide * _COLUMNS)[:rows, :columns]
