# SPDX-License-Identifier: Apache-2.0
"""Values without code as JSON with separate tensors: constant methods, and example inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from delegatec.frontend.pt2.fields import (
    MalformedError,
    fail,
    flag,
    integer,
    items,
    parsed,
    text,
    union,
)

# Every value is an object with one entry: its kind, and its content. Floats are in hexadecimal, to be exact,
# also for infinities and NaN.
_PLAIN: Final[dict[str, tuple[type, Callable[[Any, str], Any]]]] = {
    "bool": (bool, flag),
    "int": (int, integer),
    "str": (str, text),
}
_DEEPEST: Final = 100


def unstorable_constant(value: object) -> str:
    """Returns the expected form of a scalar or string that a file cannot store; "" if it can store it."""
    _, convert = next((each for each in _PLAIN.values() if each[0] is type(value)), (None, None))
    try:
        if convert is not None:
            convert(value, "it")
    except MalformedError as error:
        return str(error).removeprefix("it is not ")
    return ""


def encode(values: Mapping[str, Any]) -> tuple[str, dict[str, torch.Tensor]]:
    """Encodes values as text and tensors.

    Args:
        values: name -> a tensor, scalar, string or None, or a tuple, list or dict of them.

    Returns:
        JSON, and the tensors by the names that it refers to.
    """
    tensors: dict[str, torch.Tensor] = {}
    content = {name: _encode(value, name, tensors) for name, value in values.items()}
    return json.dumps(content, indent=1) + "\n", tensors


def decode(content: memoryview, tensors: Mapping[str, torch.Tensor], what: str) -> dict[str, Any]:
    """Decodes the result of `encode`.

    Raises:
        MalformedError: the text is damaged.
    """
    return {name: _decode(value, tensors, what, 0) for name, value in parsed(content, what).items()}


def _encode(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach()
        return {"tensor": name}
    if isinstance(value, (tuple, list)):
        encoded = [_encode(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": encoded}
    if isinstance(value, dict):
        pairs = enumerate(value.items())
        return {
            "dict": [
                [_encode(key, "", {}), _encode(item, f"{name}.{index}", tensors)]
                for index, (key, item) in pairs
            ]
        }
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None:
        return {"none": True}
    return next({word: value} for word, (kind, _) in _PLAIN.items() if isinstance(value, kind))


def _decode(value: Any, tensors: Mapping[str, torch.Tensor], what: str, depth: int) -> Any:
    if depth > _DEEPEST:
        fail(f"{what} is nested too deeply")
    kind, content = union(value, what)
    if kind == "tensor":
        found = tensors.get(text(content, what))
        return found if found is not None else fail(f"{what}: tensor {content} is missing")
    if kind in ("tuple", "list"):
        decoded = [_decode(item, tensors, what, depth + 1) for item in items(content, what)]
        return tuple(decoded) if kind == "tuple" else decoded
    if kind == "dict":
        pairs = [items(pair, what) for pair in items(content, what)]
        if any(len(pair) != 2 for pair in pairs):
            fail(f"{what} has an invalid dictionary")
        return {_key(key, what): _decode(item, tensors, what, depth + 1) for key, item in pairs}
    if kind == "float":
        try:
            return float.fromhex(text(content, what))
        except (ValueError, OverflowError) as error:
            raise MalformedError(f"{what} has an invalid float") from error
    if kind == "none":
        return None
    if kind in _PLAIN:
        return _PLAIN[kind][1](content, what)
    return fail(f"{what} has a value of unknown kind: {kind}")


def _key(value: Any, what: str) -> Any:
    kind, content = union(value, what)
    return _PLAIN[kind][1](content, what) if kind in _PLAIN else fail(f"{what} has an invalid key")
