# SPDX-License-Identifier: Apache-2.0
"""Notes on calls that compute floats between int8 layers, and that the runtime has int8 kernels for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.kernels import KERNELS
from delegatec.backends.xnnpack.quantized.plan import Plan
from delegatec.backends.xnnpack.quantized.value_sets import CLAMPS, MOVES
from delegatec.diagnostics.notes import Note
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.quantization.float_regions import float_regions, note_on_region
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

aten = torch.ops.aten

_LAYERS: Final = (aten.linear.default, NHWC.conv2d.default, NHWC.conv_transpose2d.default)
_ACTIVATIONS: Final = (KERNELS.keys() - {*_LAYERS}) | CLAMPS.keys() | MOVES
"""Without layers, which a user keeps in floating point on purpose."""
_HELP: Final = (
    "quantize their results: XNNPACK computes them in int8 if what they read and write is quantized"
)


def left_in_float(nodes: Sequence[Node], plan: Plan) -> Iterator[Note]:
    """Yields a note on each connected group of such calls.

    Args:
        nodes: the calls of a private program, in order.
        plan: the values that are kept quantized.
    """

    def is_computed(node: Node) -> bool:
        return node in plan and node.op == "call_function" and node.target not in (QUANTIZE, DEQUANTIZE)

    def is_source(node: Node) -> bool:
        if node.target is not DEQUANTIZE or node not in plan:
            return False
        quantized = node.all_input_nodes[0]
        return quantized.target is QUANTIZE and is_computed(quantized.all_input_nodes[0])

    def is_sink(node: Node) -> bool:
        floats = [user for user in node.users if user.target is DEQUANTIZE] if node.target is QUANTIZE else []
        return any(is_computed(user) for each in floats for user in each.users)

    between = [node for node in nodes if node not in plan or node.target in (QUANTIZE, DEQUANTIZE)]
    for region in float_regions(between, is_source, is_sink):
        if all(node.target in _ACTIVATIONS for node in region):
            yield note_on_region(region, "on XNNPACK", _HELP)
