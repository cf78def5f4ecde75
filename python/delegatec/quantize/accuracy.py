# SPDX-License-Identifier: Apache-2.0
"""Comparison of a quantized model with the model in float, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import Diagnostic
from delegatec.edge.runnable import runnable
from delegatec.quantize.boundary import quantize
from delegatec.quantize.flow import QuantizedModel
from delegatec.quantize.inputs import MethodInputs, Sample
from delegatec.samples.accuracy import ErrorSums, OutputAccuracy
from delegatec.samples.recorded import RecordedCall, RecordedSamples

# Calls of each method where the module's own are not recorded: two runs of each cost as much as one sample of
# calibration.
_MOST_CALLS: Final = 4


def calls_of(
    methods: Mapping[str, ExportedProgram], samples: Mapping[str, Sequence[Sample]]
) -> RecordedSamples:
    """Runs a model in float on its first calibration samples, or on example inputs if there are none.

    Args:
        methods: the model's methods, with example inputs.
        samples: method -> calibration samples.
    """
    state: dict[str, torch.Tensor] = {}
    modules = {name: runnable(program, state) for name, program in methods.items()}
    calls = []
    for method, program in methods.items():
        given = samples.get(method)
        source = "calibration" if given else "example"
        for inputs in given[:_MOST_CALLS] if given else [program.example_inputs]:
            leaves = pytree.tree_leaves(inputs)
            result = called(modules[method], leaves, program)
            paths = [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(result)[0]]
            calls.append(RecordedCall(method, source, tuple(leaves), tuple(paths)))
    return RecordedSamples(tuple(calls))


def accuracies(model: QuantizedModel, samples: RecordedSamples, source: str = "") -> list[OutputAccuracy]:
    """Returns the error of each floating-point output of a quantized model.

    Args:
        model: the quantized model.
        samples: calls of the model in float, in a row, and their results.
        source: their origin; by default each call's name says it.
    """
    state: dict[str, torch.Tensor] = {}
    callers = {name: float_caller(model, name, state) for name in model.methods}
    sums: dict[tuple[str, str, str], ErrorSums] = {}
    for call in samples.calls:
        results = callers[call.method](call.inputs)
        for found, (path, expected) in zip(results, call.outputs, strict=True):
            if not (isinstance(expected, torch.Tensor) and expected.is_floating_point()):
                continue
            key = (call.method, path, source or call.name)
            sums.setdefault(key, ErrorSums()).add(found, expected)
    return [each.accuracy(*key) for key, each in sums.items()]


def float_caller(
    model: QuantizedModel, method: str, state: dict[str, torch.Tensor]
) -> Callable[[Sequence[Any]], list[Any]]:
    """Returns a function from the inputs of a method, in float, to its outputs, in float.

    Args:
        model: the quantized model.
        method: the method.
        state: as for `runnable`.
    """
    program, quantizations = model.methods[method], model.inputs.get(method, {})
    module, names = runnable(program, state), [*MethodInputs.of(program).values]
    scales = model.outputs.get(method, {})

    def call(inputs: Sequence[Any]) -> list[Any]:
        leaves = [
            quantize(leaf, quantizations[name]) if name in quantizations else leaf
            for name, leaf in zip(names, inputs, strict=True)
        ]
        results = pytree.tree_leaves(called(module, leaves, program))
        return [
            scales[position].dequantize(found) if position in scales else found
            for position, found in enumerate(results)
        ]

    return call


def recorded_problems(
    samples: RecordedSamples, methods: Mapping[str, ExportedProgram], name: str
) -> Iterator[Diagnostic]:
    """Returns DC132 for each method whose recorded calls are not of it, but of another model.

    Args:
        samples: the recorded calls.
        methods: the model's methods.
        name: of their file.
    """
    for method in dict.fromkeys(call.method for call in samples.calls):
        text = f"the model has no method {method}"
        if method in methods:
            expected = len(MethodInputs.of(methods[method]).values)
            counts = {len(call.inputs) for call in samples.of(method)}
            if counts == {expected}:
                continue
            text = f"calls of {method} have {max(counts)} inputs, not {expected}"
        yield Diagnostic(
            "DC132",
            f"recorded calls {name}: {text}",
            expected="the .samples.safetensors that was written with this .pt2",
            help="export the model again, and pass both files",
        )


def limit_problems(found: Sequence[OutputAccuracy], minimum: float) -> Iterator[Diagnostic]:
    """Returns DC137 for each output with a lower signal to noise ratio than a limit, in dB."""
    for each in found:
        if each.snr_db < minimum:
            output = f"the output {each.output}" if each.output else "the output"
            yield Diagnostic(
                "DC137",
                f"{output} of method {each.method} has a signal to noise ratio of {each.snr_db:g} dB, "
                f"in {each.calls} call(s) of {_SOURCES[each.samples]}",
                expected=f"at least minimum_snr_db = {minimum:g}",
                help="pass calibration samples like the inputs of an app, keep modules in float "
                "(float_modules), or use wider dtypes (activation, weight)",
            )


_SOURCES: Final = {
    "module": "the module itself",
    "calibration": "the model in float with calibration samples",
    "example": "the model in float with its example inputs",
}


def called(module: torch.nn.Module, leaves: Sequence[Any], program: ExportedProgram) -> Any:
    """Calls a module that runs a program with the leaves of its inputs, which stay as they are."""
    copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    arguments, keywords = pytree.tree_unflatten(copies, program.call_spec.in_spec)
    with torch.no_grad():
        return module(*arguments, **keywords)
