# SPDX-License-Identifier: Apache-2.0
"""Checks of the scales and zero points of PT2E's operators, which torch.export does not check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.arguments import bind
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE, quantized
from delegatec.edge.source import location_of

_PER_CHANNEL: Final = (quantized.quantize_per_channel.default, quantized.dequantize_per_channel.default)


def quantization_problems(nodes: Sequence[Node]) -> Iterator[Diagnostic]:
    """Yields calls that quantize or dequantize with an impossible scale, or too many or too few."""
    for node in nodes:
        if not isinstance(node.target, OpOverload):
            continue
        if node.target in (QUANTIZE, DEQUANTIZE):
            scale = bind(node)["scale"]
            if isinstance(scale, (int, float)) and not 0 < scale < math.inf:
                help = "calibrate with real inputs, or set a least scale in the quantizer (eps)"
                yield _problem(node, f"has the scale {scale}", "a finite value above 0", help)
        elif node.target in _PER_CHANNEL:
            yield from _counts(node)


def _counts(node: Node) -> Iterator[Diagnostic]:
    bound = bind(node)
    shape, axis = _sizes(bound["input"]), bound["axis"]
    found = {name: sizes for name in ("scales", "zero_points") if (sizes := _sizes(bound[name])) is not None}
    if shape is None or all(math.prod(sizes) == 1 for sizes in found.values()):
        return  # one scale and one zero point serve all channels
    for name, sizes in found.items():
        if math.prod(sizes) != shape[axis]:
            yield _problem(
                node,
                f"has {name} of shape {list(sizes)} for a tensor of shape {list(shape)}",
                f"shape [{shape[axis]}]",
                f"pass one for each slice along dimension {axis}",
            )


def _sizes(argument: Any) -> tuple[int, ...] | None:
    """Returns the sizes of a tensor; None for other values, and for dynamic sizes."""
    value = argument.meta.get("val") if isinstance(argument, Node) else None
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(value.shape)


def _problem(node: Node, found: str, expected: str, help: str) -> Diagnostic:
    return Diagnostic(
        code="DC127",
        message=f"{node.target} {found}",
        location=location_of(node.meta.get("stack_trace")),
        node=node.name,
        expected=expected,
        help=help,
    )
