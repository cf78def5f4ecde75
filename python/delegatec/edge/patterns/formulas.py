# SPDX-License-Identifier: Apache-2.0
"""Patterns of functions, in all forms that models write them in."""

from __future__ import annotations

import torch

from delegatec.edge.patterns.pattern import ANY, Call, Pattern

aten = torch.ops.aten


def sqrt(x: Pattern) -> Pattern:
    """Matches square roots."""
    return Call(aten.sqrt.default, x) | x**0.5


def rsqrt(x: Pattern) -> Pattern:
    """Matches reciprocals of square roots, by one operator."""
    return Call(aten.rsqrt.default, x) | x**-0.5


def reciprocal(x: Pattern) -> Pattern:
    """Matches reciprocals."""
    return Call(aten.reciprocal.default, x)


def cast(x: Pattern) -> Pattern:
    """Matches conversions to any dtype."""
    return Call(aten._to_copy.default, x, dtype=ANY)


def viewed(x: Pattern) -> Pattern:
    """Matches a value, or a view of it."""
    return Call(aten.view.default, x, ANY) | x
