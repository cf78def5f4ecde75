# SPDX-License-Identifier: Apache-2.0
"""Sizes that the inputs of an exported program may have, from its signature."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Dimension:
    """A dimension of an input.

    Attributes:
        least: its least size.
        symbol: its symbol, if it has one: all dimensions of a symbol have the same size.
    """

    least: int
    symbol: str = ""


Shapes = Mapping[str, list[tuple[Dimension, ...] | None]]
"""Method -> the dimensions of each input; None for one that is not a tensor."""


def shapes_from_json(text: str) -> Shapes:
    """Reads the `signature` of an export; raises ValueError for another document."""
    try:
        return {
            name: [_dimensions(entry, method["symbols"]) for entry in method["inputs"]]
            for name, method in json.loads(text)["methods"].items()
        }
    except (AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"not the signature of an exported program: {error!r}") from error


def _dimensions(entry: Mapping[str, Any], symbols: Mapping[str, Any]) -> tuple[Dimension, ...] | None:
    return tuple(_dimension(size, symbols) for size in entry["shape"]) if "shape" in entry else None


def _dimension(size: int | str, symbols: Mapping[str, Any]) -> Dimension:
    if isinstance(size, int):
        return Dimension(size)
    if size not in symbols:
        return Dimension(0)  # an expression, such as 2*s0
    return Dimension(int(symbols[size]["min"] or 0), size)
