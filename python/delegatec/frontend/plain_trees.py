# SPDX-License-Identifier: Apache-2.0
"""Pytrees of tuples, lists and dicts only: what a program without the user's classes can be called with.

A `.pt2` is read where the user's libraries are not: torch.export stores the name of each container class,
and refuses to load a name that nobody registered (such as transformers' ModelOutput).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch.utils import _pytree as pytree

_KEPT = frozenset({tuple, list, dict})


def plain_spec(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    """The same tree with each other container as a dict, where its keys are known, or else as a tuple."""
    if spec.is_leaf():
        return spec
    children = [plain_spec(child) for child in spec.children()]
    if spec.type in _KEPT:
        return pytree.TreeSpec(spec.type, spec.context, children)
    keys = _keys(spec)
    if keys is not None:
        return pytree.TreeSpec(dict, keys, children)
    return pytree.TreeSpec(tuple, None, children)


def plain_example(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs in plain containers, each tensor with a storage of just its own elements."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    copies = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    plain = pytree.tree_unflatten(copies, plain_spec(spec))
    return plain[0], plain[1]


def _keys(spec: pytree.TreeSpec) -> list[str] | None:
    context = spec.context
    if isinstance(context, list) and len(context) == 2 and all(isinstance(part, list) for part in context):
        # a dataclass of torch.export.register_dataclass: names of its fields, then of those that are None
        context = context[0]
    if spec.type is OrderedDict or (isinstance(context, list) and len(context) == spec.num_children):
        keys = list(context)
        if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
            return keys
    return None
