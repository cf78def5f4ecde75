# SPDX-License-Identifier: Apache-2.0
"""Constant methods as JSON with separate tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import torch

# Every value is an object with one entry: its kind, and its content. Floats are in hexadecimal, to be exact,
# also for infinities and NaN.
_PLAIN: Final = {bool: "bool", int: "int", str: "str"}


def encode(methods: Mapping[str, Any]) -> tuple[str, dict[str, torch.Tensor]]:
    """Encodes constant methods as text and tensors.

    Args:
        methods: name -> value, checked by `check_constant_methods`.

    Returns:
        JSON, and the tensors by the names that it refers to.
    """
    tensors: dict[str, torch.Tensor] = {}
    content = {name: _encode(value, name, tensors) for name, value in methods.items()}
    return json.dumps(content, indent=1) + "\n", tensors


def decode(text: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Decodes the result of `encode`.

    Raises:
        ValueError, KeyError, TypeError: the text is damaged.
    """
    return {name: _decode(value, tensors) for name, value in json.loads(text).items()}


def _encode(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach()
        return {"tensor": name}
    if isinstance(value, (tuple, list)):
        items = [_encode(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, float):
        return {"float": value.hex()}
    return next({word: value} for kind, word in _PLAIN.items() if isinstance(value, kind))


def _decode(value: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind in ("tuple", "list"):
        items = [_decode(item, tensors) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "float":
        return float.fromhex(content)
    if kind in _PLAIN.values():
        return content
    raise ValueError(f"unknown kind of constant {kind!r}")
