# SPDX-License-Identifier: Apache-2.0
"""Linear layers that torchao computes as integer products, as calls of `aten.linear`.

`Int8DynamicActivationInt8WeightConfig` multiplies int8 values, and the sums by the scales of row and channel;
`Int8WeightOnlyConfig` multiplies by int8 values in floating point, and the product by the scales.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.closure import Fused, closed
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.patterns.formulas import cast, viewed
from delegatec.edge.patterns.match import Match
from delegatec.edge.patterns.pattern import ANY, NONE, Call, Const, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.constant import Constant
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.symbols import same_sizes, sizes_key

aten = torch.ops.aten


@dataclass(frozen=True)
class Product(Fused):
    """A product of `source`, float32 or float16, with a quantized weight.

    Attributes:
        rounds: whether the model quantizes it dynamically.
        weight: the constant of the weight's quantized values, int8 [inputs, outputs].
        scales: the constant of its scales, [outputs].
    """

    rounds: bool
    weight: Node
    scales: Node


def products(nodes: Sequence[Node], constant: Constant) -> list[Product]:
    """Returns the products of a program that are linear layers with quantized weights.

    Args:
        nodes: its calls.
        constant: returns the value of a constant node, and None for other nodes.
    """
    found = (_product(node, constant) for node in nodes)
    return closed([each for each in found if each is not None])


def recover_linear(program: EdgeProgram) -> bool:
    """Replaces integer products by linear layers.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder = Builder(program)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    found = products(nodes, builder.facts.constant)
    for each in found:
        last, bias = _last(each, builder.facts.constant)
        builder.at(last)
        weight = builder.derived(each.weight, program.constants[each.weight.name].t())
        block = [1, shape_of(weight)[1]]
        weight = builder.call(
            DEQUANTIZE_BLOCKS,
            weight,
            block,
            each.scales,
            None,
            torch.int8,
            output_dtype=dtype_of(each.result),
        )
        x = each.source
        if dtype_of(x) != dtype_of(each.result):
            x = builder.call(aten._to_copy.default, x, dtype=dtype_of(each.result))
        x = builder.call(XNNPACK.quantize_dynamically.default, x, 1) if each.rounds else x
        result = builder.call(aten.linear.default, x, weight, bias)
        shape = last.meta["val"].shape
        if sizes_key(result.meta["val"].shape) != sizes_key(shape):
            result = builder.call(aten.view.default, result, list(shape))
        last.replace_all_uses_with(result)
    if found:
        program.graph.eliminate_dead_code()
        program.erase_unused_placeholders()
    return bool(found)


def _last(found: Product, constant: Constant) -> tuple[Node, Node | None]:
    """Returns the last call of a layer, including a view and an added bias, and the bias."""
    node = found.result
    for target in (aten.view.default, aten.add.Tensor):
        users = list(node.users)
        if len(users) != 1 or users[0].target is not target:
            continue
        if target is aten.view.default:
            wanted = (*found.source.meta["val"].shape[:-1], shape_of(found.scales)[0])
            node = users[0] if sizes_key(users[0].meta["val"].shape) == sizes_key(wanted) else node
            continue
        first, second, alpha = bind(users[0]).values()
        added = second if first is node else first
        is_row = isinstance(added, Node) and constant(added) is not None and alpha == 1
        if (
            is_row
            and same_sizes(shape_of(added), shape_of(found.scales))
            and dtype_of(added) == dtype_of(node)
        ):
            return users[0], added
    return node, None


def _product(node: Node, constant: Constant) -> Product | None:
    """Returns the product that a multiplication by the scales of channels yields."""
    for match in _PRODUCT.matches(node, Match(constant)):
        x, weight, scales = (match.values[name] for name in ("x", "weight", "scales"))
        quantize = match.values.get("quantize")
        if not _is_matrix(weight, scales, constant):
            continue
        calls = match.calls[::-1]
        if quantize is None and _are_floats(x, node):
            wide = _unviewed(x)
            is_row = sizes_key(wide.meta["val"].shape[-1:]) == sizes_key(x.meta["val"].shape[-1:])
            return Product(wide if is_row else x, node, calls, False, weight, scales)
        if quantize is None or not _are_floats(x) or not _is_of_rows(bind(quantize)):
            continue
        # A float16 model rounds it between the scales, and gets float32.
        if dtype_of(node) is dtype_of(match.values["scaled"]) is torch.float32:
            return Product(x, node, tuple(dict.fromkeys(calls)), True, weight, scales)
    return None


def _are_floats(*nodes: Node) -> bool:
    """Whether values have one dtype, in which the runtime computes."""
    return {dtype_of(node) for node in nodes} in ({torch.float32}, {torch.float16})


def _is_of_rows(bound: dict[str, Any]) -> bool:
    block, shape = bound["block_size"], bound["input"].meta["val"].shape
    return sizes_key([block[-1]]) == sizes_key([shape[-1]]) and all(size == 1 for size in block[:-1])


def _is_matrix(weight: Any, scales: Node, constant: Constant) -> bool:
    """Whether a weight is int8, with a scale per column."""
    found = constant(weight) if isinstance(weight, Node) else None
    return found is not None and found.dtype == torch.int8 and shape_of(scales) == (found.shape[1],)


def _unviewed(node: Node) -> Node:
    return bind(node)["self"] if node.target is aten.view.default else node


_X, _QUANTIZED_WEIGHT = Var("x"), Const("weight")
_SCALES: Final = Const("scales").where(lambda scales: len(shape_of(scales)) == 1)
_CHOSEN: Final = Call(AFFINE.choose_qparams_affine.default, _X, "SYMMETRIC", ...).named("chosen")
_SCALE: Final = Call(operator.getitem, _CHOSEN, 0).named("scale")
_ZERO: Final = Call(operator.getitem, _CHOSEN, 1) | NONE
_QUANTIZE: Final = Call(AFFINE.quantize_affine.default, _X, ANY, _SCALE, _ZERO, ...).named("quantize")
_SUMS: Final = cast(Call(aten._int_mm.default, viewed(_QUANTIZE), _QUANTIZED_WEIGHT))
_SCALED: Final = (_SUMS * viewed(_SCALE)).named("scaled")
_PRODUCT: Final = (Call(aten.mm.default, _X, cast(_QUANTIZED_WEIGHT)) | _SCALED | cast(_SCALED)) * _SCALES
