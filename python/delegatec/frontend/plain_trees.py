# SPDX-License-Identifier: Apache-2.0
"""Pytrees of tuples, lists and dicts: calling programs without the user's classes.

A `.pt2` is read without the user's libraries, but torch.export stores the names of container classes, and
rejects unregistered ones (such as transformers' ModelOutput).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch.utils import _pytree as pytree

from delegatec.frontend.plain_values import unstorable_constant

_KEPT = frozenset({tuple, list})
_KEY_TYPES = frozenset({str, int, bool})


def plain_spec(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    """Returns a tree with other containers replaced by dicts, if their keys are known, or else by tuples."""
    if spec.is_leaf():
        return spec
    children = [plain_spec(child) for child in spec.children()]
    if spec.type is dict:
        return pytree.TreeSpec(dict, _plain_keys(spec.context), children)
    if spec.type in _KEPT:
        return pytree.TreeSpec(spec.type, spec.context, children)
    keys = _keys(spec)
    if keys is not None:
        return pytree.TreeSpec(dict, keys, children)
    return pytree.TreeSpec(tuple, None, children)


def plain_example(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns example inputs in plain containers, each tensor with a separate, minimal storage."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    copies = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    plain = pytree.tree_unflatten(copies, plain_spec(spec))
    return plain[0], plain[1]


def _plain_keys(keys: list[Any]) -> list[Any]:
    """Returns the keys of a dict, with strings instead of those that a `.pt2` cannot store."""
    plain = [key if type(key) in _KEY_TYPES and not unstorable_constant(key) else ascii(key) for key in keys]
    return plain if len(set(plain)) == len(keys) else [f"{index}: {key!a}" for index, key in enumerate(keys)]


def _keys(spec: pytree.TreeSpec) -> list[str] | None:
    context = spec.context
    if isinstance(context, list) and len(context) == 2 and all(isinstance(part, list) for part in context):
        # a dataclass of torch.export.register_dataclass: names of its fields, then of fields that are None
        context = context[0]
    if spec.type is OrderedDict or (isinstance(context, list) and len(context) == spec.num_children):
        keys = list(context)
        if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
            return keys
    return None
