# SPDX-License-Identifier: Apache-2.0
"""Samples that do not determine the range of an input: one value, where the model's example has several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import Diagnostic
from delegatec.quantize.inputs import MethodInputs, Sample

_EXPECTED = "samples of real inputs: the range of each activation is that of the samples"


def range_problems(
    samples: Mapping[str, Sequence[Sample]], methods: Mapping[str, ExportedProgram]
) -> Iterator[Diagnostic]:
    """Returns DC132 for float inputs without a range.

    An input of one element, such as a factor, may have one value.

    Args:
        samples: method -> its samples, at least one.
        methods: the model's methods, with example inputs.
    """
    for method, program in methods.items():
        where = f" of method {method}" if len(methods) > 1 else ""
        names = [*MethodInputs.of(program).values]
        examples = _named(names, program.example_inputs)
        values = [_named(names, sample) for sample in samples[method]]
        inputs = {name: tensor for name, tensor in examples.items() if tensor.numel()}
        wide = {
            name: [sample[name] for sample in values]
            for name, tensor in inputs.items()
            if tensor.is_floating_point() and any(sample[name].numel() > 1 for sample in values)
        }
        only = {name: value for name, tensors in wide.items() if (value := _only(tensors)) is not None}
        if inputs and only.keys() == inputs.keys() and not any(only.values()):
            text = f"the calibration samples{where} are all zero"
            yield Diagnostic("DC132", text, expected=_EXPECTED, help="record inputs as an app passes them")
            continue
        for name, value in only.items():
            if _only([examples[name]]) is None:
                yield Diagnostic(
                    "DC132",
                    f'all values of the input "{name}" in the calibration samples{where} are {value:g}',
                    expected=_EXPECTED,
                    help="its example has several values: pass samples like it",
                )


def _named(names: Sequence[str], inputs: object) -> dict[str, Tensor]:
    """Returns the tensors among the inputs of a method."""
    pairs = zip(names, pytree.tree_leaves(inputs), strict=True)
    return {name: leaf for name, leaf in pairs if isinstance(leaf, torch.Tensor)}


def _only(tensors: Sequence[Tensor]) -> float | None:
    """Returns the only value that tensors have; None if they have several."""
    found: set[float] = set()
    for tensor in tensors:
        if tensor.numel():
            found |= {float(edge) for edge in torch.aminmax(tensor)}
            if len(found) > 1:
                return None
    return found.pop() if found else None
