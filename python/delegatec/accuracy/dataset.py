# SPDX-License-Identifier: Apache-2.0
"""Datasets: samples with labels, from a file or from an iterable of the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from delegatec.accuracy.user_code import imported, refusal, user_code
from delegatec.delegation.faults import kind_of
from delegatec.diagnostics.exceptions import exception_text

_LABELS: Final = "labels"
_LONGEST: Final = 30
_FILE: Final = (
    'a .safetensors file with the tensors "0", "1", ... for the inputs, and "labels", one row a sample'
)
_ITERABLE: Final = "an iterable of samples, or a function without parameters that returns one"
_PAIR: Final = "pairs (inputs, label), where inputs is a tensor or a tuple of tensors and numbers"


@dataclass(frozen=True)
class Sample:
    """A sample.

    Attributes:
        inputs: those of the method, in its order: tensors and numbers.
        label: what the metric compares the outputs with.
    """

    inputs: tuple[Any, ...]
    label: Any


def read_dataset(path: str, is_labelled: bool = True) -> Iterator[Sample]:
    """Yields the samples of a `.safetensors` file.

    Args:
        path: the file.
        is_labelled: whether it must have labels.

    Raises:
        DelegatecError: DC521, it cannot be read, or has other tensors.
    """
    from safetensors.torch import load_file

    name = Path(path).name
    try:
        tensors = load_file(path)
    except Exception as error:  # safetensors raises its own
        raise refusal(f"cannot read dataset {name}: {exception_text(error)}", expected=_FILE) from error
    if not is_labelled:
        tensors.setdefault(_LABELS, torch.zeros(len(tensors.get("0", ()))))
    if problem := _problem(tensors):
        raise refusal(f"dataset {name}: {problem}", expected=_FILE)
    inputs = [tensors[str(index)] for index in range(len(tensors) - 1)]
    for index, label in enumerate(tensors[_LABELS]):
        yield Sample(tuple(each[index] for each in inputs), label)


def import_dataset(selector: str) -> Iterator[Sample]:
    """Yields the samples of an iterable.

    Args:
        selector: "module:attribute".

    Raises:
        DelegatecError: DC521, it cannot be imported, raises, or yields something else.
    """
    found = imported("dataset", selector, "my.dataset:validation", _ITERABLE)
    what = f"dataset {selector!r}"
    with user_code(selector, what):
        found = found() if callable(found) else found
        if not isinstance(found, Iterable) and not hasattr(found, "__getitem__"):
            raise refusal(f"{what} is {kind_of(found)}", expected=_ITERABLE)
        if hasattr(found, "__iter__") or not hasattr(found, "__len__"):
            samples = iter(found)
        else:
            # of torch: only its length says where it ends
            samples = (found[index] for index in range(len(found)))
    index = 0
    while True:
        with user_code(selector, f"{what}, sample {index},"):
            try:
                sample = next(samples)
            except StopIteration:
                return
        match sample:
            case [inputs, label]:
                yield Sample(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), label)
            case _:
                items = f", {len(sample)} items" if isinstance(sample, (tuple, list)) else ""
                text = f"{what}, sample {index}, is {kind_of(sample)}{items}"
                raise refusal(text, expected=_PAIR)
        index += 1


def label_text(label: Any) -> str:
    """Returns a label in a word or two for a table."""
    if isinstance(label, torch.Tensor):
        label = label.tolist()
    text = repr(label)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _problem(tensors: Mapping[str, torch.Tensor]) -> str:
    expected = {_LABELS, *map(str, range(len(tensors) - 1))}
    if tensors.keys() != expected or len(tensors) == 1:
        return f"it has the tensors {', '.join(sorted(tensors)) or 'none'}"
    if scalars := [name for name, tensor in tensors.items() if not tensor.dim()]:
        return f'tensor "{min(scalars)}" has no dimension of samples'
    counts = {name: len(tensor) for name, tensor in sorted(tensors.items())}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f'"{name}" has {count}' for name, count in counts.items())
        return f"tensors have different numbers of samples: {listed}"
    return ""
