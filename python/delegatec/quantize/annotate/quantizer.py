# SPDX-License-Identifier: Apache-2.0
"""The quantizer: annotates a graph of PT2E with the parameters of all its float values."""

from __future__ import annotations

import operator as python
from typing import Final

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    QuantizationSpecBase,
    Quantizer,
    SharedQuantizationSpec,
)

from delegatec.quantize.annotate.biases import add_computed_biases, bias_of, operands_of
from delegatec.quantize.annotate.inner import inner_values
from delegatec.quantize.annotate.selection import Selection
from delegatec.quantize.annotate.specs import activation_spec, bias_spec, weight_spec
from delegatec.quantize.loops.order import carry, state_of
from delegatec.quantize.operators import ACCUMULATES, BOUNDS, TRANSPOSED, Kind
from delegatec.quantize.settings import Settings

aten = torch.ops.aten

_ANNOTATION: Final = "quantization_annotation"


class DelegateQuantizer(Quantizer):  # type: ignore[misc]
    """Quantizes whole graphs, for delegates that compute in integers.

    Every float value between two quantized operators has one scale and one zero point. Operators that only
    move values or choose among them share the parameters of their operands. Batch norms are replaced before.

    Args:
        settings: how to quantize.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = settings or Settings()
        self._selection = Selection(self._settings)
        self._activation = activation_spec(self._settings, self._settings.activation)
        self._inner = self._activation
        if self._settings.inner != "same":
            self._inner = activation_spec(self._settings, self._settings.inner)
        self._inner_values: frozenset[Node] = frozenset()

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """See `Quantizer`."""
        add_computed_biases(model, self._selection)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """See `Quantizer`."""
        if self._inner is not self._activation:
            self._inner_values = inner_values(model.graph)
        fused: set[Node] = set()
        for node in model.graph.nodes:
            kind = self._selection.kind(node)
            if kind is None:
                if node.op == "placeholder" and _is_float(node):
                    self._mark(node, {}, self._activation if self._is_used(node) else None)
                continue
            if kind is Kind.LAYER:
                inputs = self._layer(node)
            elif kind in (Kind.SHARED, Kind.COMPARED):
                inputs = self._shared(node)
            else:
                inputs = {source: self._spec(source) for source in _operands(node)}
            inputs = {source: spec for source, spec in inputs.items() if source not in fused}
            if kind in ACCUMULATES and self._bound_after(node) is not None:
                fused.add(node)
                self._mark(node, inputs, None)
                continue
            output: QuantizationSpecBase | None = self._spec(node) if _is_float(node) else None
            if kind is Kind.SHARED and output is not None:
                output = self._shared_output(node)
            self._mark(node, inputs, output)
        return model

    def validate(self, model: GraphModule) -> None:
        """See `Quantizer`."""

    def _is_used(self, node: Node) -> bool:
        return any(self._selection.kind(user) is not None for user in node.users)

    def _spec(self, node: Node) -> QuantizationSpec:
        return self._inner if node in self._inner_values else self._activation

    def _mark(
        self, node: Node, inputs: dict[Node, QuantizationSpecBase], output: QuantizationSpecBase | None
    ) -> None:
        node.meta[_ANNOTATION] = QuantizationAnnotation(
            input_qspec_map=inputs, output_qspec=output, _annotated=True
        )

    def _shared(self, node: Node) -> dict[Node, QuantizationSpecBase]:
        operands = _operands(node)
        if not operands:
            return {}
        if node.target is carry:
            return {operands[0]: SharedQuantizationSpec(state_of(node))}
        shared = SharedQuantizationSpec((operands[0], node))
        return {operands[0]: self._spec(operands[0]), **dict.fromkeys(operands[1:], shared)}

    def _shared_output(self, node: Node) -> QuantizationSpecBase:
        """Returns the specification of a result that shares its operands' parameters."""
        call = node
        while call.target is python.getitem:
            (call,) = call.all_input_nodes
        return SharedQuantizationSpec((_operands(call)[0], call))

    def _layer(self, node: Node) -> dict[Node, QuantizationSpecBase]:
        x, weight = operands_of(node)
        axis = 1 if node.target is aten.addmm.default else _channel_axis(node)
        if weight.op != "get_attr":
            axis = None
        spec = weight_spec(self._settings, axis) if weight.op == "get_attr" else self._activation
        inputs: dict[Node, QuantizationSpecBase] = {x: self._activation, weight: spec}
        bias = bias_of(node)
        if bias is not None and bias.op == "get_attr":
            per_channel = axis is not None and self._settings.weight_scales == "channel"
            inputs[bias] = bias_spec(x, weight, node, per_channel)
        return inputs

    def _bound_after(self, node: Node) -> Node | None:
        """Returns the bounded activation that is the only user of a result."""
        if len(node.users) != 1:
            return None
        (user,) = node.users
        fits = user.target in BOUNDS and self._selection.kind(user) is not None and user.args[0] is node
        return user if fits and len(user.all_input_nodes) == 1 else None


def annotation_of(node: Node) -> QuantizationAnnotation | None:
    """Returns what a quantizer has written to a node; None for one that stays in float."""
    return node.meta.get(_ANNOTATION)


def is_quantized(node: Node) -> bool:
    """Whether a quantizer has annotated a call as one with quantized operands."""
    annotation = annotation_of(node)
    return annotation is not None and bool(annotation.input_qspec_map)


def _operands(node: Node) -> list[Node]:
    """Returns the operands of float32, in order."""
    return [source for source in node.all_input_nodes if _is_float(source)]


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32


def _channel_axis(node: Node) -> int | None:
    """Returns the dimension of output channels of a layer's weight; None if it has none."""
    is_transposed = node.target in TRANSPOSED
    groups = node.args[6] if len(node.args) > 6 else 1
    if node.target is aten.convolution.default:
        is_transposed, groups = bool(node.args[6]), node.args[8]
    if not is_transposed:
        return 0
    return 1 if groups == 1 else None
