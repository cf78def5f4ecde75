# SPDX-License-Identifier: Apache-2.0
"""Casts next to levels: these are converted to and from the dtype of each reader, without more rounding."""

from __future__ import annotations

import torch

from delegatec.backends.xnnpack.quantized.scales import DEQUANTIZE, QUANTIZE
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def fold_casts(program: EdgeProgram) -> bool:
    """Removes casts of dequantized values, and those before a quantization.

    A float16 program computes sums and means in float32. Between levels, the runtime computes them with
    integers, if nothing is between them and the levels.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder, changed = Builder(program), False
    for node in list(program.graph.find_nodes(op="call_function", target=aten._to_copy.default)):
        source = bind(node)["self"]
        if not (dtype_of(source).is_floating_point and dtype_of(node).is_floating_point):
            continue
        if source.target is DEQUANTIZE:
            wide = builder.at(node).call(DEQUANTIZE, *source.args, val=node.meta["val"])
            node.replace_all_uses_with(wide)
            changed = True
        for user in list(node.users):
            if user.target is QUANTIZE:
                user.replace_input_with(node, source)
                changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed
