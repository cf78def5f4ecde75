# SPDX-License-Identifier: Apache-2.0
"""Paths of a program's flat inputs and outputs in the model's arguments and results."""

from __future__ import annotations

from torch.utils import _pytree as pytree


def input_paths(spec: pytree.TreeSpec) -> list[str]:
    """Returns the path of each leaf of (args, kwargs), such as "args[0]['image']"."""
    return [
        ("kwargs" if path[0].idx else "args") + pytree.keystr(path[1:])  # type: ignore[attr-defined]
        for path in _paths(spec)
    ]


def output_paths(spec: pytree.TreeSpec) -> list[str]:
    """Returns the path of each leaf of the results, such as "result[1]"."""
    return ["result" + pytree.keystr(path) for path in _paths(spec)]


def _paths(spec: pytree.TreeSpec) -> list[pytree.KeyPath]:
    tree = pytree.tree_unflatten(range(spec.num_leaves), spec)
    return [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
