# SPDX-License-Identifier: Apache-2.0
"""Quantization of an exported model after training: decompose, observe samples, convert, export again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import quantize_pt2e
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import exception_text
from delegatec.edge.quantization.scale import Quantization
from delegatec.edge.state import written_state
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.annotate.biases import bind_biases, widen_weights
from delegatec.quantize.annotate.missing_values import calls_of_missing_values
from delegatec.quantize.annotate.prepare import prepare
from delegatec.quantize.annotate.quantizer import DelegateQuantizer, is_quantized
from delegatec.quantize.boundary import quantize, quantize_boundary
from delegatec.quantize.checks import check_float, check_model, nothing_to_quantize
from delegatec.quantize.decompose.decompositions import decompose
from delegatec.quantize.decompose.dense_operands import copy_views_before_quantization
from delegatec.quantize.decompose.logits import fuse_logits
from delegatec.quantize.decompose.norms import fold_batch_norms, replace_batch_norms
from delegatec.quantize.graph.bodies import separate_carried_operands
from delegatec.quantize.graph.calls import mark_calls
from delegatec.quantize.graph.constants import delete_unused_modules, fold_constants, store_quantized
from delegatec.quantize.graph.method_order import in_order_of_state, readers
from delegatec.quantize.graph.provenance import port_metadata
from delegatec.quantize.graph.state import ObservedState, SharedTensors
from delegatec.quantize.graph.written_inputs import write_to_inputs
from delegatec.quantize.inputs import MethodInputs, Sample
from delegatec.quantize.layers.quantize_layers import graphs_of, layer_problems, quantize_layers
from delegatec.quantize.layers.recurrent import RECURRENT, operators_in_float
from delegatec.quantize.loops.borders import flatten_loops, gather_loops
from delegatec.quantize.loops.order import called
from delegatec.quantize.ranges.common_ranges import CommonRanges
from delegatec.quantize.ranges.comparisons import round_compared
from delegatec.quantize.ranges.domains import keep_in_domains
from delegatec.quantize.ranges.poles import PoleRanges
from delegatec.quantize.ranges.selected import SelectedRanges
from delegatec.quantize.ranges.softmax_totals import widen_totals
from delegatec.quantize.ranges.whole_numbers import keep_whole_numbers
from delegatec.quantize.settings import Settings
from delegatec.quantize.shapes import dynamic_shapes
from delegatec.quantize.switches.switched import Switched
from delegatec.quantize.switches.switched_graph import SwitchedGraph
from delegatec.quantize.switches.switched_layers import SwitchedLayers, copied


@dataclass(frozen=True)
class QuantizedModel:
    """A quantized model.

    Attributes:
        methods: method -> its program.
        inputs: method -> input -> its quantization, with `Settings.quantize_io`.
        outputs: method -> position of an output -> its quantization.
    """

    methods: dict[str, ExportedProgram] = field(default_factory=dict)
    inputs: dict[str, dict[str, Quantization]] = field(default_factory=dict)
    outputs: dict[str, dict[int, Quantization]] = field(default_factory=dict)


def quantize_model(
    methods: Mapping[str, ExportedProgram],
    samples: Mapping[str, Sequence[Sample]],
    settings: Settings,
    announce: Callable[[str], None] = lambda stage: None,
    keep: Callable[[Switched], None] | None = None,
) -> QuantizedModel:
    """Quantizes each method of a model by samples of its inputs.

    Args:
        methods: method -> its program in float, with example inputs.
        samples: method -> arguments that represent those of real use; unused unless `settings.is_static`.
        settings: how to quantize.
        announce: receives the stage that begins, such as "observing forward, sample 1 of 64".
        keep: receives the switches of each method, for a search.

    Raises:
        DelegatecError: DC130, a module or operator of the settings that no method has; DC132, a sample that
            the model fails on, or returns NaN for; DC134, a program that is quantized, has nothing to
            quantize, has weights that are not finite, or layers that the group size does not divide.
    """
    check_float(methods)
    state = written_state(methods.values())
    graphs = (
        _observed(methods, samples, settings, state, announce, keep)
        if settings.is_static
        else _layered(methods, settings, state, announce, keep)
    )
    tensors = SharedTensors(state)
    made: dict[str, ExportedProgram] = {}
    inputs: dict[str, dict[str, Quantization]] = {}
    outputs: dict[str, dict[int, Quantization]] = {}
    for method, graph in graphs:
        program = methods[method]
        example = _example(program)
        if settings.quantize_io:
            inputs[method], outputs[method] = quantize_boundary(graph, method)
            example = _quantized_example(program, inputs[method])
        tensors.share(graph)
        if program.range_constraints:
            copy_views_before_quantization(graph)
        announce(f"tracing {method}")
        model = Model(graph, example[0], example[1], dynamic_shapes(program))
        # `quantize.accuracy` compares with the model in float.
        (made[method],) = export(model, samples=0).values()
    return QuantizedModel({method: made[method] for method in methods}, inputs, outputs)


def _layered(
    methods: Mapping[str, ExportedProgram],
    settings: Settings,
    state: Collection[str],
    announce: Callable[[str], None],
    keep: Callable[[Switched], None] | None,
) -> Iterator[tuple[str, GraphModule]]:
    """Yields each method and a module for it, whose layers have quantized weights; it needs no samples."""
    announce("folding constants")
    graphs = graphs_of(methods, settings, state)
    check_model(methods, {}, settings, layer_problems(graphs, settings, state))
    for method, graph in graphs.items():
        announce(f"quantizing the weights of {method}")
        if keep is not None:
            keep(SwitchedLayers(copied(graph), settings))
        quantize_layers(graph, settings, state)
        yield method, graph


def _observed(
    methods: Mapping[str, ExportedProgram],
    samples: Mapping[str, Sequence[Sample]],
    settings: Settings,
    state: Collection[str],
    announce: Callable[[str], None],
    keep: Callable[[Switched], None] | None,
) -> Iterator[tuple[str, GraphModule]]:
    """Yields each method and a module for it, whose activations have the ranges of samples."""
    decomposed = {}
    for method, program in methods.items():
        announce(f"decomposing {method}")
        with torch.no_grad():
            decomposed[method] = decompose(program, operators_in_float(program, settings), RECURRENT)
    check_model(methods, decomposed, settings)
    reading = readers(methods)
    observed = ObservedState(state, frozenset().union(*reading.values()))
    for method in in_order_of_state(methods):
        program = decomposed.pop(method)
        restore = observed.restore if method in reading else None
        graph = _quantize(
            program, samples[method], settings, state, observed, restore, method, announce, keep
        )
        yield method, graph


def _quantize(
    decomposed: ExportedProgram,
    samples: Sequence[Sample],
    settings: Settings,
    state: Collection[str],
    observed: ObservedState,
    restore: Callable[[GraphModule, int], None] | None,
    method: str,
    announce: Callable[[str], None],
    keep: Callable[[Switched], None] | None,
) -> GraphModule:
    """Returns a module of the same inputs and outputs that calls `quantized_decomposed` operators."""
    with torch.no_grad():
        graph = decomposed.module(check_guards=False)
        assert isinstance(graph, GraphModule)
        flatten_loops(graph)
        fuse_logits(graph)
        fold_constants(graph, state)
        fold_batch_norms(graph, state)
        replace_batch_norms(graph, state)
        mark_calls(graph.graph.nodes)
        in_float = settings.float_calls | calls_of_missing_values(graph, samples)
        settings = replace(settings, float_calls=in_float)
        initial = observed.enter(graph)
        prepared = prepare(graph, DelegateQuantizer(settings))
        if not any(is_quantized(node) for node in prepared.graph.nodes):
            raise DelegatecError([nothing_to_quantize(method)])
        write_to_inputs(prepared)
        poles = PoleRanges(prepared)
        common = CommonRanges(prepared)
        selected = SelectedRanges(prepared)
        # a method that only reads state is observed with the last one, and with those before
        for index, (arguments, keywords) in enumerate(samples if restore is None else [*samples, *samples]):
            number = index % len(samples)
            announce(f"observing {method}, sample {number + 1} of {len(samples)}")
            if restore is not None and index >= len(samples):
                restore(prepared, number)
            try:
                results = called(prepared, arguments, keywords)
            except Exception as error:  # the model's own
                raise _failed(method, number, f"fails: {exception_text(error)}") from error
            if any(_has_nan(result) for result in pytree.tree_leaves(results)):
                raise _failed(method, number, "returns NaN")
            if restore is None:
                observed.keep(prepared)
        announce(f"converting {method}")
        (observed.leave if restore is None else observed.finish)(prepared, initial)
        selected.finish()
        common.separate()
        poles.limit()
        widen_totals(prepared)
        keep_in_domains(prepared)
        keep_whole_numbers(prepared, state)
        bind_biases(prepared)
        widen_weights(prepared)
        if keep is not None:
            keep(SwitchedGraph(prepared, settings))
        converted = _converted(prepared, method)
        round_compared(converted)
        store_quantized(converted, state)
        port_metadata(converted)
        gather_loops(converted)
        separate_carried_operands(converted)
    result: GraphModule = converted
    return result


def _example(program: ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]]:
    assert program.example_inputs is not None
    arguments, keywords = program.example_inputs
    return tuple(arguments), dict(keywords)


def _quantized_example(program: ExportedProgram, inputs: Mapping[str, Quantization]) -> tuple[Any, Any]:
    leaves, spec = pytree.tree_flatten(_example(program))
    names = [*MethodInputs.of(program).values]
    quantized = [
        quantize(leaf, inputs[name]) if name in inputs else leaf
        for name, leaf in zip(names, leaves, strict=True)
    ]
    arguments, keywords = pytree.tree_unflatten(quantized, spec)
    return arguments, keywords


def _converted(prepared: GraphModule, method: str) -> GraphModule:
    """Returns the graph with quantized values.

    torchao would search a graph with a batch norm for layers in training, of which this one has none, and
    would trace 96 patterns for that, which takes seconds. It would delete the bodies that a body runs.

    Raises:
        DelegatecError: DC134, observed values whose range is not finite in float32.
    """
    try:
        with (
            patch.object(quantize_pt2e, "_fold_conv_bn_qat", lambda graph: graph),
            patch.object(GraphModule, "delete_all_unused_submodules", delete_unused_modules),
        ):
            converted: GraphModule = convert_pt2e(prepared, fold_quantize=False)
        return converted
    except AssertionError as error:  # of the observers of torchao
        raise DelegatecError(
            [
                Diagnostic(
                    "DC134",
                    f"method {method} has values without a range: {exception_text(error)}",
                    expected="values whose largest difference is finite in float32",
                    help="check the scale of weights and samples, or keep these modules in float",
                )
            ]
        ) from error


def _has_nan(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.isnan().any())


def _failed(method: str, index: int, what: str) -> DelegatecError:
    text = f"calibration sample {index}: method {method} {what}"
    help = "check the values of the sample, such as indices"
    return DelegatecError([Diagnostic("DC132", text, expected="inputs that the model accepts", help=help)])
