# SPDX-License-Identifier: Apache-2.0
"""Constant methods: methods without inputs, such as a model's maximum sequence length."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import torch
from torch.utils import _pytree as pytree

from delegatec.diagnostics import Diagnostic, SourceLocation

# Width of a program's integers.
_INTEGERS: Final = range(-(2**63), 2**63)


def check_constant_methods(
    constant_methods: Mapping[str, Any],
    methods: Collection[str],
    dtypes: Collection[torch.dtype],
    location: SourceLocation | None = None,
) -> list[Diagnostic]:
    """Checks names and values of constant methods.

    Args:
        constant_methods: name -> value: an int, a float, a bool, a string, a tensor on CPU, or a tuple or
            list of these, which may be nested.
        methods: names that are in use.
        dtypes: supported dtypes of tensors.
        location: the line that defines them.

    Returns:
        DC122 for each invalid name and value.
    """
    problems: list[Diagnostic] = []
    for name, value in constant_methods.items():
        if not isinstance(name, str) or not name.isidentifier() or name in methods:
            problems.append(
                Diagnostic(
                    "DC122",
                    f"invalid constant method name {name!r}",
                    location=location,
                    expected="an identifier that is not a method of the model",
                    help="rename it",
                )
            )
        problems += (
            Diagnostic(
                "DC122",
                f"constant method {name!r} returns {found}",
                location=location,
                expected="64-bit ints, floats, bools, strings, tensors, or tuples or lists of these",
                help=help_text,
            )
            for found, help_text in _unfit(value, dtypes)
        )
    return problems


def flatten(value: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Returns the leaves of a value in order, and their tree."""
    return pytree.tree_flatten(value, is_leaf=lambda item: not isinstance(item, (tuple, list)))


def _unfit(value: Any, dtypes: Collection[torch.dtype]) -> Iterator[tuple[str, str]]:
    leaves = flatten(value)[0]
    if not leaves:
        yield "nothing", "return at least one value"
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if leaf.dtype not in dtypes or leaf.device.type != "cpu" or leaf.layout is not torch.strided:
                kind = f"{leaf.dtype} on {leaf.device.type} with layout {leaf.layout}".replace("torch.", "")
                yield f"a tensor of {kind}", "convert it to a strided tensor on cpu"
        elif isinstance(leaf, int) and leaf not in _INTEGERS:
            yield f"{leaf}", "return it as a float, or as several integers"
        elif not isinstance(leaf, (bool, int, float, str)):
            yield f"a value of type {type(leaf).__name__}", "return its elements"
