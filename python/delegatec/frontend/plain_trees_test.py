# SPDX-License-Identifier: Apache-2.0
"""Tests of plain_trees."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.frontend.plain_trees import plain_example, plain_spec

Pair = namedtuple("Pair", ["left", "right"])


class Output(dict[str, Any]):
    """A container as libraries have them: registered by them, with its keys as context."""


pytree.register_pytree_node(
    Output,
    lambda output: (list(output.values()), list(output.keys())),
    lambda values, keys: Output(zip(keys, values, strict=True)),
    serialized_type_name="plain_trees_test.Output",
)


@dataclass
class Point:
    """A class that torch.export flattens to its fields."""

    x: int
    label: tuple[int, ...]
    nothing: None = None


torch.export.register_dataclass(Point, serialized_type_name="plain_trees_test.Point")


@pytest.mark.parametrize(
    ("tree", "plain"),
    [
        (1, 1),
        ((1, [2, {"a": 3}]), (1, [2, {"a": 3}])),
        (Output(logits=1, states=(2, 3)), {"logits": 1, "states": (2, 3)}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Pair(1, Output(x=2)), (1, {"x": 2})),
        ([Point(1, (2, 3))], [{"x": 1, "label": (2, 3)}]),
        ((), ()),
    ],
)
def test_containers_become_plain(tree: object, plain: object) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    result = pytree.tree_unflatten(leaves, plain_spec(spec))
    assert result == plain
    assert pytree.tree_structure(result) == pytree.tree_structure(plain)
    # The exported form is read without the user's classes.
    assert pytree.treespec_loads(pytree.treespec_dumps(plain_spec(spec))) == plain_spec(spec)


def test_examples_are_copies_of_their_elements() -> None:
    large = torch.arange(100.0)
    args, kwargs = plain_example((large[10:12],), {"options": Pair(large[:1], 3)})
    assert torch.equal(args[0], large[10:12])
    assert args[0].untyped_storage().nbytes() == 8
    assert kwargs == {"options": (torch.zeros(1), 3)}
