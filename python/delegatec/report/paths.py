# SPDX-License-Identifier: Apache-2.0
"""Where the flat inputs and outputs of a program are in what the model takes and returns."""

from __future__ import annotations

from torch.utils import _pytree as pytree


def input_paths(spec: pytree.TreeSpec) -> list[str]:
    """For each leaf of the tree of (args, kwargs) how it is reached, such as "args[0]['image']"."""
    return [
        ("kwargs" if path[0].idx else "args") + pytree.keystr(path[1:])  # type: ignore[attr-defined]
        for path in _paths(spec)
    ]


def output_paths(spec: pytree.TreeSpec) -> list[str]:
    """For each leaf of the tree of results how it is reached, such as "result[1]"."""
    return ["result" + pytree.keystr(path) for path in _paths(spec)]


def _paths(spec: pytree.TreeSpec) -> list[pytree.KeyPath]:
    tree = pytree.tree_unflatten(range(spec.num_leaves), spec)
    return [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
