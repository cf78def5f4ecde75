# SPDX-License-Identifier: Apache-2.0
"""Biases that int32 can represent: their scale is a product, which is tiny for a channel of tiny weights."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize

from delegatec.quantize.constants import tensor_of

# Half of the range of int32: an accumulator adds products to the bias.
_MOST: Final = 2.0**30


def widen_weights(prepared: GraphModule) -> None:
    """Widens the observed range of each weight whose scale would let its bias overflow, in place."""
    modules = dict(prepared.named_modules())
    for node in prepared.graph.nodes:
        observer = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, DerivedObserverOrFakeQuantize):
            source = node.args[0]
            if isinstance(source, Node) and source.op == "get_attr":
                _widen(observer.obs_or_fqs, tensor_of(prepared, source).detach())


def _widen(observers: list[Any], bias: torch.Tensor) -> None:
    activation, weight = observers
    scale = activation.calculate_qparams()[0]
    least = bias.abs() / (scale * _MOST) * weight.quant_max
    if not weight.max_val.dim():
        least = least.max()
    weight.max_val.copy_(torch.maximum(weight.max_val, least))
