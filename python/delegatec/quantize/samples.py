# SPDX-License-Identifier: Apache-2.0
"""Calibration data: samples of inputs, from files or from a function of the user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError, Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import exception_text
from delegatec.files import HEAD_BYTES, kind_of_file
from delegatec.quantize.constant_samples import range_problems
from delegatec.quantize.inputs import MethodInputs, Sample

_FILES: Final = "a .safetensors file with a tensor per input, or a .npy file for a model with one input"
_HELP_SAVE: Final = "write it with safetensors.torch.save_file({input: tensor}, path), or numpy.save"
_STACKED: Final = (
    "a tensor of finite values per input: of its shape for one sample, or with a first dimension of samples"
)
_SAMPLES: Final = "an iterable of samples: each a tensor, a tuple of arguments, or a dict of tensors by input"

Samples = dict[str, list[Sample]]


def samples_of_files(
    paths: Iterable[str], methods: Mapping[str, ExportedProgram], purpose: str = "calibration"
) -> Samples:
    """Reads samples from files.

    Tensors of `forward`, or of the only method, have the names of inputs; those of another method,
    "METHOD.INPUT".

    Args:
        paths: `.safetensors` and `.npy` files, in the order of their samples.
        methods: the model's methods.
        purpose: what the samples are for, in messages.

    Returns:
        Method -> samples. Their tensors are copies.

    Raises:
        DelegatecError: DC131, an unreadable file; DC132, tensors that do not match the methods.
    """
    inputs = {name: MethodInputs.of(program) for name, program in methods.items()}
    samples: Samples = {name: [] for name in methods}
    problems: list[Diagnostic] = []
    for path in paths:
        name = os.path.basename(path)
        try:
            tensors = _read(path, inputs)
        except _UnreadableError as error:
            text = f"cannot read {purpose} data {name}: {error}"
            problems.append(Diagnostic("DC131", text, expected=_FILES, help=_HELP_SAVE))
            continue
        for method, group in _by_method(tensors, inputs).items():
            found = _stacked(group, inputs[method], samples[method])
            where = "" if len(inputs) == 1 else f", method {method}"
            texts = [f"{purpose} data {name}{where}: {text}" for text in found]
            problems += [Diagnostic("DC132", text, expected=_STACKED) for text in texts]
    _raise(problems)
    return samples


def samples_of_function(
    result: Any,
    methods: Mapping[str, ExportedProgram],
    location: SourceLocation | None,
    purpose: str = "calibration",
) -> Samples:
    """Checks the result of a function that returns samples.

    Args:
        result: samples of `forward` or of the only method, or a dict of samples by method.
        methods: the model's methods.
        location: the function.
        purpose: what the samples are for, in messages.

    Returns:
        Method -> samples.

    Raises:
        DelegatecError: DC132, samples that do not match the methods; DC133, no samples at all.
    """
    inputs = {name: MethodInputs.of(program) for name, program in methods.items()}
    groups = result if isinstance(result, dict) else {default_method(inputs): result}
    problems: list[Diagnostic] = []
    samples: Samples = {name: [] for name in methods}
    for method, group in groups.items():
        if method not in inputs or not isinstance(group, list):
            what = "None" if group is None else f"a {type(group).__name__}"
            if method not in inputs:
                what = f'a dict with the key "{method}"'
            text = f"the {purpose} function returns {what}"
            problems.append(Diagnostic("DC133", text, location=location, expected=_SAMPLES))
            continue
        for index, sample in enumerate(group):
            texts = _checked(sample, inputs[method], samples[method])
            where = "" if len(inputs) == 1 else f" of {method}"
            texts = [f"{purpose} sample {index}{where}: {text}" for text in texts]
            problems += [Diagnostic("DC132", text, location=location, expected=_SAMPLES) for text in texts]
            if texts:
                break
    _raise(problems)
    return samples


def listed(result: Any) -> Any:
    """Returns the result of a calibration function with iterables as lists: they may run user code."""
    if isinstance(result, dict) and result and all(isinstance(key, str) for key in result):
        return {method: listed(group) for method, group in result.items()}
    if isinstance(result, (str, bytes, torch.Tensor)) or not isinstance(result, Iterable):
        return result
    return list(result)


def default_method(methods: Mapping[str, Any]) -> str:
    """Returns the method whose inputs need no prefix."""
    return "forward" if "forward" in methods else next(iter(methods))


def check_samples(samples: Samples, methods: Mapping[str, ExportedProgram]) -> None:
    """Raises DC132 for each method without samples, and for each input that they give no range.

    Args:
        samples: those of each method.
        methods: the model's methods, with example inputs.
    """
    _raise(
        [
            Diagnostic(
                "DC132",
                "no calibration samples" + f" for method {method}" * (len(samples) > 1),
                expected="a few dozen samples of real inputs per method",
                help="list data files in `calibration`, or name a function in `calibration_entry`",
            )
            for method, group in samples.items()
            if not group
        ]
    )
    _raise(list(range_problems(samples, methods)))


class _UnreadableError(Exception):
    pass


def _read(path: str, inputs: Mapping[str, MethodInputs]) -> dict[str, torch.Tensor]:
    if not os.path.isfile(path):
        raise _UnreadableError("it is a directory" if os.path.isdir(path) else "no such file")
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    try:
        if head.startswith(b"\x93NUMPY"):
            return _array(path, inputs)
        if head[8:9] == b"{":
            from safetensors.torch import load_file

            return load_file(path)
    except _UnreadableError:
        raise
    except Exception as error:  # numpy and safetensors raise their own
        raise _UnreadableError(f"it is truncated or damaged ({exception_text(error)})") from error
    raise _UnreadableError(kind_of_file(head))


def _array(path: str, inputs: Mapping[str, MethodInputs]) -> dict[str, torch.Tensor]:
    array = numpy.load(path, allow_pickle=False)
    names = [*inputs[default_method(inputs)].tensors]
    if len(names) != 1 or len(inputs) != 1:
        expected = ", ".join(names) if len(inputs) == 1 else f"{len(inputs)} methods"
        raise _UnreadableError(f"it has one array, but the model has the inputs {expected}")
    return {names[0]: torch.from_numpy(array.copy())}


def _by_method(
    tensors: Mapping[str, torch.Tensor], inputs: Mapping[str, MethodInputs]
) -> dict[str, dict[str, torch.Tensor]]:
    groups: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        method, dot, rest = name.partition(".")
        owner, own = (method, rest) if dot and method in inputs else (default_method(inputs), name)
        groups.setdefault(owner, {})[own] = tensor
    return groups or {default_method(inputs): {}}


def _stacked(tensors: Mapping[str, torch.Tensor], inputs: MethodInputs, samples: list[Sample]) -> list[str]:
    """Adds the samples of tensors that may stack several; returns problems."""
    problems = inputs.name_problems([*tensors])
    if problems:
        return problems
    counts = {name: inputs.count(name, tensor) for name, tensor in tensors.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f'"{name}" has {count or 1}' for name, count in counts.items())
        return [f"inputs have different numbers of samples: {listed}"]
    count = next(iter(counts.values()), None)
    singles = [tensors] if count is None else [{k: v[i] for k, v in tensors.items()} for i in range(count)]
    for index, single in enumerate(singles):
        problems = _add(single, inputs, samples)
        if problems:
            return [text if count is None else f"sample {index}: {text}" for text in problems]
    return []


def _add(tensors: Mapping[str, torch.Tensor], inputs: MethodInputs, samples: list[Sample]) -> list[str]:
    problems = [text for name, tensor in tensors.items() if (text := inputs.tensor_problem(name, tensor))]
    if not problems:
        samples.append(inputs.sample({name: tensor.clone() for name, tensor in tensors.items()}))
    return problems


def _checked(sample: Any, inputs: MethodInputs, samples: list[Sample]) -> list[str]:
    """Adds a sample of a function; returns problems."""
    if isinstance(sample, dict):
        named = sample
    else:
        leaves = pytree.tree_leaves(sample)
        names = [*inputs.values] if len(leaves) == len(inputs.values) else [*inputs.tensors]
        if len(leaves) != len(names):
            return [f"it has {len(leaves)} values, but the method has the inputs {', '.join(inputs.values)}"]
        pairs = zip(names, leaves, strict=True)
        named = {name: leaf for name, leaf in pairs if name in inputs.tensors}
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            return [f'"{name}" is of type {type(value).__name__}, not a tensor']
    return inputs.name_problems([*named]) or _add(named, inputs, samples)


def _raise(problems: list[Diagnostic]) -> None:
    if problems:
        raise DelegatecError(problems)
