# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of layers, with activations in float, or quantized at run time: there are no samples.

Quantized values and scales are those of torchao's `quantize_` with symmetric weights
(`Int8DynamicActivationIntxWeightConfig`, `IntxWeightOnlyConfig`), and of PT2E's dynamic quantization for the
images of convolutions.
"""

from __future__ import annotations

import operator as python
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.quantization.operators import quantized
from delegatec.edge.symbols import same_sizes
from delegatec.quantize.decompose.decompositions import names_of
from delegatec.quantize.decompose.norms import fold_batch_norms
from delegatec.quantize.graph.bodies import (
    all_nodes,
    describe_bodies,
    remove_unread_operands,
    separate_carried_operands,
)
from delegatec.quantize.graph.calls import mark_calls
from delegatec.quantize.graph.constants import (
    delete_unused_tensors,
    fold_constants,
    store,
    tensor_of,
    unused_name,
)
from delegatec.quantize.graph.retracing import retraced
from delegatec.quantize.layers.forms import Form, Layer, layers_of
from delegatec.quantize.layers.lines import IMAGES, ROW, image_arguments
from delegatec.quantize.layers.recurrent import RECURRENT, operators_in_float
from delegatec.quantize.layers.weights import RANGES, Scheme, quantize_weight, scheme_of
from delegatec.quantize.settings import Settings

aten = torch.ops.aten
torchao = torch.ops.torchao

_KEYS: Final = ("stack_trace", "nn_module_stack")
_EPS: Final = torch.finfo(torch.float32).eps
_VIEWS: Final = frozenset({aten.view.default, aten.reshape.default, aten.flatten.using_ints})


def graphs_of(
    programs: Mapping[str, ExportedProgram], settings: Settings, state: Collection[str]
) -> dict[str, GraphModule]:
    """Returns the graph of each method: constants are evaluated, batch norms folded, recurrent layers linear.

    Args:
        programs: method -> its program; they are not changed.
        settings: name recurrent layers that stay as they are.
        state: names of the state that any method writes to.
    """
    graphs = {}
    for method, program in programs.items():
        graph = _functional(program, operators_in_float(program, settings)).module(check_guards=False)
        assert isinstance(graph, GraphModule)
        with torch.no_grad():
            fold_constants(graph, state)
            fold_batch_norms(graph, state)
        describe_bodies(graph)
        mark_calls(node for node, _ in all_nodes(graph))
        graphs[method] = graph
    return graphs


def _functional(program: ExportedProgram, kept: set[str]) -> ExportedProgram:
    """Returns a program that writes only to its buffers, with recurrent layers as linear ones."""
    table = {target: function for target, function in RECURRENT.items() if not names_of(target) & kept}
    return retraced(program, table)


def layer_problems(
    graphs: Mapping[str, GraphModule], settings: Settings, state: Collection[str]
) -> list[Diagnostic]:
    """Returns all problems of the layers.

    DC134: no layers in a method, or one that `group_size` does not divide; DC406: a weight that overflows
    float16.
    """
    problems: list[Diagnostic] = []
    for method, graph in graphs.items():
        layers = layers_of(graph, settings, state)
        problems += [] if layers else [_nothing(method, settings)]
        problems += [
            _undivided(graph, layer, settings) for layer in layers if not _divides(graph, layer, settings)
        ]
        problems += [_beyond(layer) for layer in layers if _is_beyond(graph, layer, settings)]
    return list(dict.fromkeys(problems))


def quantize_layers(graph: GraphModule, settings: Settings, state: Collection[str]) -> None:
    """Quantizes the layers of a graph, in place: it calls operators of `quantized_decomposed` and torchao.

    Args:
        graph: one of `graphs_of`, without `layer_problems`.
        settings: how to quantize.
        state: names of the state that any method writes to.
    """
    with torch.no_grad():
        _Writer(graph, settings).write(layers_of(graph, settings, state))


def _divides(graph: GraphModule, layer: Layer, settings: Settings) -> bool:
    is_linear = layer.operands.form is Form.LINEAR
    return not settings.group_size or not is_linear or _inputs(graph, layer) % settings.group_size == 0


def _inputs(graph: GraphModule, layer: Layer) -> int:
    return int(tensor_of(graph, layer.weight).shape[1 - layer.operands.axis])


def _undivided(graph: GraphModule, layer: Layer, settings: Settings) -> Diagnostic:
    size, owner = settings.group_size, layer.name.rpartition(".")[0]
    return Diagnostic(
        "DC134",
        f'group_size = {size} does not divide the {_inputs(graph, layer)} inputs of "{layer.name}"',
        expected="a divisor of the input features of each linear layer",
        help="change group_size, or keep the layer in float" + f': float_modules = ["{owner}"]' * bool(owner),
    )


def _replace(node: Node, other: Node) -> None:
    other.meta = dict(node.meta)
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)


def _is_beyond(graph: GraphModule, layer: Layer, settings: Settings) -> bool:
    most = torch.finfo(torch.float16).max
    return settings.weight == "float16" and float(tensor_of(graph, layer.weight).abs().max()) > most


def _beyond(layer: Layer) -> Diagnostic:
    return Diagnostic(
        "DC406",
        f'the weight "{layer.name}" has values beyond float16',
        expected=f"values of at most {torch.finfo(torch.float16).max:.0f}",
        help="keep the layer in float, with float_modules, or scale the weight",
    )


def _merges_dynamic_rows(x: Node) -> bool:
    """Whether a value is a view of rows of several dynamic dimensions as those of a matrix."""
    if x.target not in _VIEWS:
        return False
    old, new = x.all_input_nodes[0].meta["val"].shape, x.meta["val"].shape
    several = sum(not isinstance(size, int) for size in old[:-1]) > 1
    return len(new) == 2 and several and same_sizes(old[-1:], new[-1:])


def _nothing(method: str, settings: Settings) -> Diagnostic:
    is_float = settings.activation == "float"
    layers = "a linear layer or" if is_float else "a linear layer, a convolution that is not depthwise or"
    return Diagnostic(
        "DC134",
        f"method {method} has no layer to quantize",
        expected=f"{layers} an embedding with a weight of float32, not in float_modules or float_operators",
        help='activation = "dynamic_int8" also quantizes convolutions' if is_float else "",
    )


class _Writer:
    """Writes quantized weights and operands into a graph, in place.

    Args:
        graph: the graph.
        settings: how to quantize.
    """

    def __init__(self, graph: GraphModule, settings: Settings) -> None:
        self._graph = graph
        self._settings = settings
        # Name and scheme of a weight -> the nodes of its parts: tied weights may be stored once.
        self._stored: dict[tuple[str, Scheme], tuple[Node, ...]] = {}
        # Activations that are quantized at run time: several layers may read one.
        self._dynamically_quantized: dict[tuple[Node, Form], Node] = {}
        # Lines, and whether a linear layer reads them -> how it, or a convolution of images, does.
        self._lines: dict[tuple[Node, bool], Node] = {}

    def write(self, layers: Iterable[Layer]) -> None:
        """Quantizes layers of the graph."""
        for layer in layers:
            self._quantize(layer)
        remove_unread_operands(self._graph)
        separate_carried_operands(self._graph)
        self._graph.graph.eliminate_dead_code()
        delete_unused_tensors(self._graph)
        self._graph.recompile()

    def _quantize(self, layer: Layer) -> None:
        node, operands, x = layer.node, layer.operands, layer.x
        weight = self._weight(layer)
        if layer.is_line:
            x = self._moved(layer, x)
        if self._settings.activation == "dynamic_int8" and operands.form is not Form.EMBEDDING:
            key = (x, operands.form)
            if key not in self._dynamically_quantized:
                self._dynamically_quantized[key] = (
                    self._quantize_image(node, x)
                    if operands.form is Form.CONVOLUTION
                    else self._quantize_rows(node, x, _inputs(self._graph, layer))
                )
            x = self._dynamically_quantized[key]
        if layer.is_product:
            bias = node.args[0] if node.target is aten.addmm.default else None
            _replace(node, self._call(node, aten.linear.default, x, weight, bias))
            return
        if layer.is_line:
            self._replace_line(layer, x, weight)
            return
        arguments = list(node.args)
        arguments[operands.x], arguments[operands.weight] = x, weight
        node.args = tuple(arguments)

    def _call(self, layer: Node, target: Any, *arguments: Any) -> Node:
        """Returns a call before a layer, with its module and line."""
        with layer.graph.inserting_before(layer):
            call: Node = layer.graph.call_function(target, arguments)
        call.meta = {key: layer.meta[key] for key in _KEYS if key in layer.meta}
        return call

    # ---- convolutions of lines -----------------------------------------------------------------------------

    def _moved(self, layer: Layer, x: Node) -> Node:
        """Returns lines [N, channels, L] as rows of channels, or as images of one row."""
        is_linear = layer.operands.form is Form.LINEAR
        key = (x, is_linear)
        if key not in self._lines:
            call = (aten.transpose.int, x, 1, 2) if is_linear else (aten.unsqueeze.default, x, ROW)
            moved = self._lines[key] = self._call(layer.node, *call)
            val = x.meta["val"]
            moved.meta["val"] = val.transpose(1, 2) if is_linear else val.unsqueeze(ROW)
        return self._lines[key]

    def _replace_line(self, layer: Layer, x: Node, weight: Node) -> None:
        """Replaces a convolution of lines, whose input is `_moved` and whose weight is quantized."""
        node = layer.node
        bias = node.args[2] if len(node.args) > 2 else None
        if layer.operands.form is Form.LINEAR:
            rows = self._call(node, aten.linear.default, x, weight, bias)
            _replace(node, self._call(node, aten.transpose.int, rows, 1, 2))
            return
        image = self._call(node, IMAGES[node.target], x, weight, bias, *image_arguments(node))
        _replace(node, self._call(node, aten.squeeze.dim, image, ROW))

    # ---- activations ---------------------------------------------------------------------------------------

    def _quantize_rows(self, layer: Node, x: Node, width: int) -> Node:
        """Quantizes and dequantizes a tensor, with a scale and a zero point per row of a width."""
        if _merges_dynamic_rows(x):
            # the same rows: next to the layer, the view can be removed with that of the layer's result
            rows = self._quantize_rows(layer, x.all_input_nodes[0], width)
            return self._call(layer, x.target, rows, *x.args[1:])
        block = [*[1] * (x.meta["val"].dim() - 1), width]
        limits = RANGES["int8"]
        options = ("ASYMMETRIC", block, torch.int8, *limits, None, None, torch.int8)
        scale, zero = self._parts(
            layer, self._call(layer, torchao.choose_qparams_affine.default, x, *options)
        )
        arguments = (block, scale, zero, torch.int8, *limits)
        quantized_values = self._call(layer, torchao.quantize_affine.default, x, *arguments)
        return self._call(layer, torchao.dequantize_affine.default, quantized_values, *arguments)

    def _quantize_image(self, layer: Node, x: Node) -> Node:
        """Quantizes and dequantizes a tensor, with one scale and zero point."""
        limits = RANGES["int8"]
        options = (*limits, _EPS, torch.int8)
        scale, zero = self._parts(layer, self._call(layer, quantized.choose_qparams.tensor, x, *options))
        arguments = (scale, zero, *limits, torch.int8)
        quantized_values = self._call(layer, quantized.quantize_per_tensor.tensor, x, *arguments)
        return self._call(layer, quantized.dequantize_per_tensor.tensor, quantized_values, *arguments)

    def _parts(self, layer: Node, chosen: Node) -> tuple[Node, Node]:
        scale, zero = (self._call(layer, python.getitem, chosen, position) for position in (0, 1))
        return scale, zero

    # ---- weights -------------------------------------------------------------------------------------------

    def _weight(self, layer: Layer) -> Node:
        """Returns the values of a stored weight, [outputs, inputs] for a linear layer."""
        value = layer.arranged(tensor_of(self._graph, layer.weight).detach())
        scheme = scheme_of(layer, self._settings, value)
        key = (layer.name, scheme)
        if key not in self._stored:
            self._stored[key] = self._store(layer, scheme, value.contiguous())
        stored = map(layer.operand, self._stored[key])
        return self._call(layer.node, *self._values(layer, scheme, *stored))

    def _values(self, layer: Layer, scheme: Scheme, quantized_values: Node, *parts: Node) -> tuple[Any, ...]:
        """Returns the operator and the arguments of the call that dequantizes a weight."""
        if scheme.dtype == "float16":
            return aten.to.dtype, quantized_values, torch.float32
        limits = (*scheme.limits, torch.int8)
        if scheme.axis is None:
            scale = float(tensor_of(self._graph, layer.loaded(parts[0])))
            return quantized.dequantize_per_tensor.default, quantized_values, scale, 0, *limits
        if layer.operands.form is Form.CONVOLUTION:
            return quantized.dequantize_per_channel.default, quantized_values, *parts, scheme.axis, *limits
        arguments = (list(scheme.block), *parts, None, torch.int8, *scheme.limits)
        return torchao.dequantize_affine.default, quantized_values, *arguments

    def _store(self, layer: Layer, scheme: Scheme, value: Tensor) -> tuple[Node, ...]:
        """Stores the parts of a weight; returns the nodes that load them."""
        if scheme.dtype == "float16":
            return (self._constant(layer, "float16", value.to(torch.float16)),)
        quantized_values, scale = quantize_weight(value, scheme)
        stored = [self._constant(layer, "levels", quantized_values)]
        if layer.operands.form is Form.CONVOLUTION:
            scale = scale.flatten()
            zeros = torch.zeros_like(scale, dtype=torch.int64)
            return (
                *stored,
                self._constant(layer, "scale", scale),
                self._constant(layer, "zero_point", zeros),
            )
        return (*stored, self._constant(layer, "scale", scale))

    def _constant(self, layer: Layer, part: str, value: Tensor) -> Node:
        name = unused_name(self._graph, f"{layer.name}_{part}")
        return store(self._graph, layer.outer_node, name, value)
