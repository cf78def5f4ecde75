# SPDX-License-Identifier: Apache-2.0
"""Checks of `dynamic_shapes` against the example inputs, for mistakes that torch.export does not name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from delegatec.diagnostics import Diagnostic
from delegatec.frontend.method import Method

_HELP = "write {dimension: torch.export.Dim(name, max=...)} for each tensor, or None for fixed sizes"


def dynamic_shape_problems(module: object, method: Method) -> Iterator[Diagnostic]:
    """Yields DC113 for each part of `dynamic_shapes` that has the wrong type, or names no dimension.

    Args:
        module: the module.
        method: the method, with valid example inputs.
    """
    shapes = method.dynamic_shapes
    if shapes is None:
        return
    if isinstance(shapes, (tuple, list)):
        inputs = (*method.example_inputs, *dict(method.example_kwargs or {}).values())
        if len(shapes) == len(inputs):  # torch.export reports other lengths
            yield from _problems("dynamic_shapes", inputs, shapes)
    elif isinstance(shapes, Mapping):
        yield from _problems("dynamic_shapes", _by_name(module, method), shapes)
    else:
        yield _wrong("dynamic_shapes", shapes, "a tuple of specs, or a dict of specs by argument")


def _by_name(module: object, method: Method) -> dict[str, Any]:
    try:
        signature = inspect.signature(getattr(module, method.function))
        return signature.bind(*method.example_inputs, **dict(method.example_kwargs or {})).arguments
    except (AttributeError, TypeError, ValueError):
        return {}  # reported elsewhere


def _problems(path: str, value: Any, spec: Any) -> Iterator[Diagnostic]:
    if isinstance(value, torch.Tensor):
        yield from _tensor_problems(path, value, spec)
    elif isinstance(value, Mapping) and isinstance(spec, Mapping):
        for key in spec.keys() & value.keys():
            yield from _problems(f"{path}[{key!r}]", value[key], spec[key])
    elif isinstance(value, (tuple, list)) and isinstance(spec, (tuple, list)) and len(spec) == len(value):
        for index, (item, inner) in enumerate(zip(value, spec, strict=True)):
            yield from _problems(f"{path}[{index}]", item, inner)


def _tensor_problems(path: str, tensor: torch.Tensor, spec: Any) -> Iterator[Diagnostic]:
    rank = tensor.dim()
    if isinstance(spec, Mapping):
        for key in spec:
            if not isinstance(key, int) or not -rank <= key < rank:
                yield Diagnostic(
                    "DC113",
                    f"{path} has the key {key!r}; the tensor has {rank} dimensions",
                    expected=f"dimensions from 0 to {rank - 1}" if rank else "no dimensions",
                    help=_HELP,
                )
    elif isinstance(spec, (tuple, list)):
        if len(spec) != rank:
            expected = f"{rank}, one for each dimension of the tensor"
            message = f"{path} has {len(spec)} items"
            yield Diagnostic("DC113", message, expected=expected, help=_HELP)
    elif isinstance(spec, (int, str, float)):
        yield _wrong(path, spec, "a dict or tuple of dimensions")


def _wrong(path: str, value: object, expected: str) -> Diagnostic:
    message = f"{path} has type {type(value).__name__}"
    return Diagnostic("DC113", message, expected=expected, help=_HELP)
