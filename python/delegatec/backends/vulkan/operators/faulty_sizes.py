# SPDX-License-Identifier: Apache-2.0
"""The size of a call that a fault of a device may be about."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.devices.profile import Device, Fault
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.arguments import bind
from delegatec.edge.symbols import largest, smallest_nonempty

aten = torch.ops.aten

LAYERS: Final = frozenset(
    (aten.linear.default, *(getattr(RUNTIME, f"linear_{name}").default for name in ("q8csw", "q4gsw")))
)
"""Products with a weight, whose rows may have several dimensions: shaders join them."""
_MATRICES: Final = frozenset(
    (
        *(aten.mm.default, aten.bmm.default, aten.addmm.default),
        *(getattr(RUNTIME, name).default for name in ("q8ta_linear", "q8ta_linear_gemv")),
    )
)
PRODUCTS: Final = LAYERS | _MATRICES
CONVOLUTIONS: Final = frozenset(
    (aten.convolution.default, RUNTIME.q8ta_conv2d.default, RUNTIME.q8ta_conv2d_pw.default)
)
ATTENTION: Final = aten.scaled_dot_product_attention.default


def size_of(node: Node) -> tuple[str, Any] | None:
    """Returns the name of a call's size, a key of `SIZES`, and the size; None if no fault is about it."""
    if node.target in LAYERS:
        return "product.rows", math.prod(node.meta["val"].shape[:-1])
    if node.target in _MATRICES:
        return "product.rows", node.meta["val"].shape[-2]
    if node.target is ATTENTION:
        return "attention.rows", node.meta["val"].shape[-2]
    if node.target not in CONVOLUTIONS:
        return None
    bound = bind(node)
    if bound["groups"] != 1 or bound.get("transposed"):
        return None
    kernel = bound["kernel"] if "kernel" in bound else bound["weight"].meta["val"].shape[2:]
    name = "pointwise" if all(each == 1 for each in kernel) else "convolution"
    return f"{name}.output_channels", node.meta["val"].shape[1]


def fault_of(node: Node, device: Device) -> Fault | None:
    """Returns a fault of a device for the size of a call, or for one that it may have in a run; else None."""
    found = size_of(node) if device.faults else None
    if found is None:
        return None
    name, size = found
    high = largest(size)
    assert high is not None, "a size without an upper bound was accepted"
    return device.fault(name, smallest_nonempty(size), high)
