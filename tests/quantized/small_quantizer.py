# SPDX-License-Identifier: Apache-2.0
"""A quantizer of PT2E: int8 layers, static or dynamic, with shared parameters where values only move."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import (
    FusedMovingAvgObsFakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten

_LAYERS: Final = (aten.linear.default, aten.conv2d.default)
_NORMS: Final = (aten.batch_norm.default,)
_ACTIVATIONS: Final = (aten.relu.default, aten.hardtanh.default, aten.relu6.default)
_SHARED: Final = (aten.cat.default, aten.add.Tensor, aten.adaptive_avg_pool2d.default, aten.mean.dim)


class SmallQuantizer(Quantizer):  # type: ignore[misc]
    """Annotates layers, sums and concatenations.

    Args:
        per_channel: whether weights have a scale per channel.
        dynamic: whether activations are quantized by their own range; only of linear layers.
        training: whether to simulate quantization in training.
    """

    def __init__(self, per_channel: bool = True, dynamic: bool = False, training: bool = False) -> None:
        super().__init__()
        self._dynamic, self._training = dynamic, training
        self._activation = self._spec(
            MovingAverageMinMaxObserver if training else HistogramObserver, -128, torch.per_tensor_affine
        )
        if dynamic:
            self._activation = QuantizationSpec(
                dtype=torch.int8,
                observer_or_fake_quant_ctr=PlaceholderObserver.with_args(is_dynamic=True),
                quant_min=-128,
                quant_max=127,
                qscheme=torch.per_tensor_affine,
                is_dynamic=True,
            )
        if per_channel:
            observer = MovingAveragePerChannelMinMaxObserver if training else PerChannelMinMaxObserver
            self._weight = self._spec(observer, -127, torch.per_channel_symmetric, ch_axis=0)
        else:
            observer = MovingAverageMinMaxObserver if training else MinMaxObserver
            self._weight = self._spec(observer, -127, torch.per_tensor_symmetric)

    def _spec(self, observer: Any, low: int, scheme: torch.qscheme, **options: Any) -> QuantizationSpec:
        if self._training:
            maker = FusedMovingAvgObsFakeQuantize.with_args(observer=observer, eps=2**-12)
        else:
            maker = observer.with_args(eps=2**-12)
        return QuantizationSpec(
            dtype=torch.int8,
            observer_or_fake_quant_ctr=maker,
            quant_min=low,
            quant_max=127,
            qscheme=scheme,
            **options,
        )

    def annotate(self, model: GraphModule) -> GraphModule:
        """See `Quantizer`."""
        for node in model.graph.nodes:
            if node.target in _LAYERS:
                self._layer(node)
            elif node.target in _SHARED and not self._dynamic:
                self._shared(node)
        return model

    def _layer(self, node: Node) -> None:
        if self._dynamic and node.target is not aten.linear.default:
            return
        x, weight = node.args[:2]
        last = node
        while len(last.users) == 1 and next(iter(last.users)).target in _NORMS + _ACTIVATIONS:
            last = next(iter(last.users))
        alone = last is node
        self._mark(node, {x: self._activation, weight: self._weight}, alone)
        if not alone:
            self._mark(last, {}, True)

    def _mark(self, node: Node, inputs: dict[Any, Any], has_output: bool) -> None:
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            input_qspec_map=inputs,
            output_qspec=self._activation if has_output and not self._dynamic else None,
            _annotated=True,
        )

    def _shared(self, node: Node) -> None:
        operands = node.all_input_nodes
        first = operands[0]
        same = SharedQuantizationSpec((first, node))
        inputs = {first: self._activation, **dict.fromkeys(operands[1:], same)}
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            input_qspec_map=inputs, output_qspec=same, _annotated=True
        )

    def validate(self, model: GraphModule) -> None:
        """See `Quantizer`."""
