# SPDX-License-Identifier: Apache-2.0
"""Pytrees of plain containers: a stored tree may name any class, whose module torch imports."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, Final

from torch.utils import _pytree as pytree

from delegatec.frontend.pt2.fields import MalformedError, fail, items, record, text

_SEQUENCES: Final[dict[str, type]] = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "torch.fx.immutable_collections.immutable_list": list,
}
_MAPPINGS: Final[dict[str, type]] = {
    "builtins.dict": dict,
    "collections.OrderedDict": OrderedDict,
    "torch.fx.immutable_collections.immutable_dict": dict,
}
_DEEPEST: Final = 100
_PROTOCOL: Final = 1


def tree_of(stored: Any, what: str) -> pytree.TreeSpec:
    """Returns the tree of a text in torch's format; raises MalformedError if a container is not plain."""
    try:
        content = json.loads(text(stored, what))
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{what} is not JSON") from error
    if type(content) is not list or len(content) != 2 or content[0] != _PROTOCOL:
        fail(f"{what} has an unsupported version")
    return _tree(content[1], what, 0)


def _tree(stored: Any, what: str, depth: int) -> pytree.TreeSpec:
    if depth > _DEEPEST:
        fail(f"{what} is nested too deeply")
    node = record(stored, what)
    kind, context = node.get("type"), node.get("context")
    stored_children = items(node.get("children_spec"), what)
    if kind is None:
        if context is not None or stored_children:
            fail(f"{what} has an invalid leaf")
        return pytree.treespec_leaf()
    children = [_tree(child, what, depth + 1) for child in stored_children]
    kind = text(kind, what)
    if kind in _SEQUENCES:
        return pytree.TreeSpec(_SEQUENCES[kind], None, children)
    if kind not in _MAPPINGS:
        fail(f"{what} has a container of type {kind}")
    keys = _keys(context, what)
    if len(keys) != len(children):
        fail(f"{what} has a dictionary with {len(keys)} keys and {len(children)} values")
    return pytree.TreeSpec(_MAPPINGS[kind], keys, children)


def _keys(context: Any, what: str) -> list[Any]:
    try:
        keys = items(json.loads(text(context, what)), what)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{what} is not JSON") from error
    if not all(type(key) in (str, int, bool, float) for key in keys) or len(set(keys)) != len(keys):
        fail(f"{what} has invalid keys")
    return keys
