# SPDX-License-Identifier: Apache-2.0
"""Checks of `dynamic_shapes` against the example inputs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch.export import Dim
from torch.export.dynamic_shapes import _DimHint

from delegatec.diagnostics import Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.frontend.method import Method

_HELP: Final = (
    "write {dimension: torch.export.Dim(name, min=1, max=...)} for each tensor, or None for fixed sizes"
)


def dynamic_shape_problems(module: object, method: Method) -> Iterator[Diagnostic]:
    """Yields DC113 for each part of `dynamic_shapes` that has another structure than the inputs.

    Args:
        module: the module.
        method: the method, with valid example inputs.
    """
    shapes = method.dynamic_shapes
    if isinstance(shapes, (Mapping, tuple, list, type(None))) and not shapes:
        return
    inputs = (*method.example_inputs, *dict(method.example_kwargs or {}).values())
    named = _by_name(module, method)
    if isinstance(shapes, (tuple, list)):
        # Like torch, which groups the arguments of *inputs.
        yield from _sequence_problems("dynamic_shapes", tuple(named.values()) or inputs, shapes)
    elif isinstance(shapes, Mapping):
        if inputs and named:
            yield from _mapping_problems("dynamic_shapes", named, shapes)
    else:
        yield _wrong("dynamic_shapes", shapes, "a tuple of specs, or a dict of specs by argument")


def _by_name(module: object, method: Method) -> dict[str, Any]:
    try:
        signature = inspect.signature(getattr(module, method.function))
        bound = signature.bind(*method.example_inputs, **dict(method.example_kwargs or {}))
    except (AttributeError, TypeError, ValueError):
        return {}  # reported elsewhere
    variable = [p for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    return {} if variable else bound.arguments


def _problems(path: str, value: Any, spec: Any) -> Iterator[Diagnostic]:
    if spec is None:
        return
    if isinstance(value, torch.Tensor):
        yield from _tensor_problems(path, value, spec)
    elif type(value) is dict:
        if isinstance(spec, Mapping):
            yield from _mapping_problems(path, value, spec)
        else:
            yield _wrong(path, spec, "a dict with the keys of the example input, or None")
    elif type(value) in (tuple, list):
        if type(spec) is type(value):
            yield from _sequence_problems(path, value, spec)
        else:
            yield _wrong(path, spec, f"a {type(value).__name__} of {len(value)} specs, or None")


def _mapping_problems(path: str, values: Mapping[Any, Any], specs: Mapping[Any, Any]) -> Iterator[Diagnostic]:
    for key in specs:
        if key not in values:
            near = did_you_mean(key, map(str, values))
            message = f"{path} has the key {key!r}, which no example input has"
            yield Diagnostic("DC113", message, expected=", ".join(map(repr, values)), help=near or _HELP)
        else:
            yield from _problems(f"{path}[{key!r}]", values[key], specs[key])
    for key in values if specs.keys() <= values.keys() else ():
        if key not in specs:
            help = "write None for fixed sizes"
            yield Diagnostic("DC113", f"{path} lacks the key {key!r} of the example inputs", help=help)


def _sequence_problems(path: str, values: Any, specs: Any) -> Iterator[Diagnostic]:
    if len(specs) != len(values):
        expected = f"{len(values)}, one for each example input"
        yield Diagnostic("DC113", f"{path} has {_items(specs)}", expected=expected, help=_HELP)
        return
    for index, (value, spec) in enumerate(zip(values, specs, strict=True)):
        yield from _problems(f"{path}[{index}]", value, spec)


def _items(values: Any) -> str:
    return "1 item" if len(values) == 1 else f"{len(values)} items"


def _tensor_problems(path: str, tensor: torch.Tensor, spec: Any) -> Iterator[Diagnostic]:
    rank = tensor.dim()
    if isinstance(spec, Mapping):
        for key, size in spec.items():
            if type(key) is not int or not -rank <= key < rank:
                yield Diagnostic(
                    "DC113",
                    f"{path} has the key {key!r}; the tensor has {rank} dimensions",
                    expected=f"dimensions from 0 to {rank - 1}" if rank else "no dimensions",
                    help=_HELP,
                )
            else:
                yield from _size_problems(f"{path}[{key}]", tensor.shape[key], size)
    elif isinstance(spec, (tuple, list)):
        if len(spec) != rank:
            expected = f"{rank}, one for each dimension of the tensor"
            message = f"{path} has {_items(spec)}"
            yield Diagnostic("DC113", message, expected=expected, help=_HELP)
            return
        for index, size in enumerate(spec):
            yield from _size_problems(f"{path}[{index}]", tensor.shape[index], size)
    else:
        yield _wrong(path, spec, "a dict or tuple of dimensions")


def _size_problems(path: str, size: int, spec: Any) -> Iterator[Diagnostic]:
    if isinstance(spec, Dim):
        # The bounds of a dimension derived from another one follow from it.
        low, high = getattr(spec, "min", None), getattr(spec, "max", None)
        if wrong := [bound for bound in (low, high) if isinstance(bound, float)]:
            message = f"{path} has the bound {wrong[0]!r}, of type {type(wrong[0]).__name__}"
            yield Diagnostic(
                "DC113", message, expected="integers", help="write Dim(name, min=1, max=8), with integers"
            )
        elif (low is not None and size < low) or (high is not None and size > high):
            message = f"{path} has the range {low} to {high}, and the example input the size {size}"
            help = "change the bounds of the Dim, or the example input"
            yield Diagnostic(
                "DC113", message, expected="a range with the size of the example input", help=help
            )
    elif type(spec) is int:
        if spec != size:
            message = f"{path} is {spec}, and the example input has the size {size}"
            yield Diagnostic("DC113", message, expected="the size of the example input, or a Dim", help=_HELP)
    elif spec is not None and not isinstance(spec, _DimHint):
        yield _wrong(path, spec, "a torch.export.Dim, or None for a fixed size")


def _wrong(path: str, value: object, expected: str) -> Diagnostic:
    kind = f"is the class {value.__name__}" if isinstance(value, type) else f"has type {type(value).__name__}"
    return Diagnostic("DC113", f"{path} {kind}", expected=expected, help=_HELP)
