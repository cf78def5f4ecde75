# SPDX-License-Identifier: Apache-2.0
"""Linear layers that torchao computes with products of integers, as calls of `aten.linear`.

`Int8DynamicActivationInt8WeightConfig` multiplies levels, and the sums by the scales of row and channel;
`Int8WeightOnlyConfig` multiplies by levels in floating point, and the product by the scales.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.quantized.closure import closed
from delegatec.edge.affine import AFFINE
from delegatec.edge.analysis.quantized import Constant, quantized
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten


@dataclass(frozen=True)
class Product:
    """A product with a quantized weight.

    Attributes:
        source: the first factor, float32 or float16.
        rounds: whether the model quantizes it at run time.
        levels: the constant of the weight's levels, int8 [inputs, outputs].
        steps: the constant of its scales, [outputs].
        result: the call that yields the product.
        calls: all calls, the result included.
    """

    source: Node
    rounds: bool
    levels: Node
    steps: Node
    result: Node
    calls: tuple[Node, ...]

    @property
    def inner(self) -> Sequence[Node]:
        """The calls but the result."""
        return self.calls[:-1]


def products(nodes: Sequence[Node], constant: Constant) -> list[Product]:
    """Returns the products of a program that are linear layers with quantized weights.

    Args:
        nodes: its calls.
        constant: returns the value of a constant node, and None for other nodes.
    """
    found = (_product(node, constant) for node in nodes if node.target is aten.mul.Tensor)
    return closed([each for each in found if each is not None])


def recover_linear(program: EdgeProgram) -> bool:
    """Replaces products of integers by linear layers.

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
        levels = builder.derived(each.levels, program.constants[each.levels.name].t())
        zeros = builder.constant(torch.zeros(shape_of(each.steps)[0], dtype=torch.int64))
        limits = torch.iinfo(torch.int8)
        weight = builder.call(
            quantized.dequantize_per_channel.default,
            *(levels, each.steps, zeros, 0, limits.min, limits.max, torch.int8),
            out_dtype=dtype_of(each.result),
        )
        x = each.source
        if dtype_of(x) != dtype_of(each.result):
            x = builder.call(aten._to_copy.default, x, dtype=dtype_of(each.result))
        x = builder.call(XNNPACK.rounded.default, x, 1) if each.rounds else x
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
    """Returns the last call of a layer, after its result is viewed and a bias is added, and the bias."""
    node = found.result
    for target in (aten.view.default, aten.add.Tensor):
        users = list(node.users)
        if len(users) != 1 or users[0].target is not target:
            continue
        if target is aten.view.default:
            wanted = (*found.source.meta["val"].shape[:-1], shape_of(found.steps)[0])
            node = users[0] if sizes_key(users[0].meta["val"].shape) == sizes_key(wanted) else node
            continue
        first, second, alpha = bind(users[0]).values()
        added = second if first is node else first
        is_row = isinstance(added, Node) and constant(added) is not None and alpha == 1
        if is_row and shape_of(added) == shape_of(found.steps) and dtype_of(added) == dtype_of(node):
            return users[0], added
    return node, None


def _product(node: Node, constant: Constant) -> Product | None:
    """Returns the product that a multiplication by the scales of channels yields."""
    scaled, steps = _by_constant(node, constant)
    if scaled is None or steps is None:
        return None
    if scaled.target is aten.mm.default:
        x, factor = (bind(scaled)[name] for name in ("self", "mat2"))
        levels = bind(factor)["self"] if factor.target is aten._to_copy.default else None
        if levels is None or not _is_matrix(levels, steps, constant) or not _are_numbers(x, node):
            return None
        wide = _unviewed(x)
        if sizes_key(wide.meta["val"].shape[-1:]) == sizes_key(x.meta["val"].shape[-1:]):
            x = wide
        return Product(x, False, levels, steps, node, (factor, scaled, node))
    casts = [scaled] if scaled.target is aten._to_copy.default else []
    scaled = bind(scaled)["self"] if casts else scaled
    if scaled.target is not aten.mul.Tensor or not dtype_of(node) is dtype_of(scaled) is torch.float32:
        return None
    return _integers(node, scaled, casts, steps, constant)


def _integers(
    node: Node, scaled: Node, casts: Sequence[Node], steps: Node, constant: Constant
) -> Product | None:
    """Returns a product of levels. A float16 model rounds it between the scales, and gets float32."""
    for sums, scale in (scaled.args, scaled.args[::-1]):
        if (
            not isinstance(sums, Node)
            or not isinstance(scale, Node)
            or sums.target is not aten._to_copy.default
        ):
            continue
        product = bind(sums)["self"]
        if product.target is not aten._int_mm.default:
            continue
        first, levels = bind(product).values()
        quantize, step = _unviewed(first), _unviewed(scale)
        if quantize.target is not AFFINE.quantize_affine.default or step.target is not operator.getitem:
            continue
        bound, chosen = bind(quantize), step.all_input_nodes[0]
        is_symmetric = chosen.target is AFFINE.choose_qparams_affine.default and (
            bind(chosen)["mapping_type"] == "SYMMETRIC"
        )
        if not is_symmetric or bound["scale"] is not step or not _is_matrix(levels, steps, constant):
            continue
        x, zero = bound["input"], bound["zero_point"]
        if bind(chosen)["input"] is not x or not _are_numbers(x) or not _is_of_rows(bound):
            continue
        zeros = [zero] if isinstance(zero, Node) else []
        parts = (chosen, step, *zeros, quantize, scale, first, product, sums, scaled, *casts, node)
        return Product(x, True, levels, steps, node, tuple(dict.fromkeys(parts)))
    return None


def _are_numbers(*nodes: Node) -> bool:
    """Whether values have one dtype that the runtime computes with."""
    return {dtype_of(node) for node in nodes} in ({torch.float32}, {torch.float16})


def _is_of_rows(bound: dict[str, Any]) -> bool:
    block, shape = bound["block_size"], bound["input"].meta["val"].shape
    return sizes_key([block[-1]]) == sizes_key([shape[-1]]) and all(size == 1 for size in block[:-1])


def _is_matrix(levels: Any, steps: Node, constant: Constant) -> bool:
    """Whether a weight is int8, with a scale per column."""
    found = constant(levels) if isinstance(levels, Node) else None
    return found is not None and found.dtype == torch.int8 and shape_of(steps) == (found.shape[1],)


def _by_constant(node: Node, constant: Constant) -> tuple[Node | None, Node | None]:
    """Returns the factors of a multiplication by a row."""
    first, second = node.args
    if isinstance(first, Node) and constant(first) is not None:
        first, second = second, first
    is_row = isinstance(second, Node) and constant(second) is not None and len(shape_of(second)) == 1
    return (first, second) if isinstance(first, Node) and is_row else (None, None)  # type: ignore[return-value]


def _unviewed(node: Node) -> Node:
    return bind(node)["self"] if node.target is aten.view.default else node
