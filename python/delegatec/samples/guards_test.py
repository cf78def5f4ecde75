# SPDX-License-Identifier: Apache-2.0
"""Guards of programs that torch exported: those of sizes, in both modes, and no others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.utils import _pytree as pytree

from delegatec.samples.guards import problems_of_others

_ROWS = Dim.AUTO(min=2, max=9)


class Box:
    """A container that refuses other contents than tensors."""

    def __init__(self, value: Tensor) -> None:
        self.value, self.dtype = value, value.dtype


class Even(nn.Module):
    """Computes an even number of rows in another way."""

    def forward(self, x: Any) -> Tensor:
        value: Tensor = x.value if isinstance(x, Box) else x
        return value * 2 if value.shape[0] % 2 == 0 else value


class Counted(nn.Module):
    """Compares a size with a number."""

    def forward(self, x: Tensor, count: int) -> Tensor:
        return x * 2 if x.shape[0] == count else x


def _messages(module: nn.Module, *args: Any, sizes: Any, strict: bool = False) -> list[str]:
    exported = export(module, args, dynamic_shapes=sizes, strict=strict)
    assert exported._guards_code
    return [each.message for each in problems_of_others({"forward": exported})]


@pytest.mark.parametrize(("strict", "name"), [(False, "x"), (True, "input 0")])
def test_a_size_that_is_even_by_chance(strict: bool, name: str) -> None:
    (found,) = _messages(Even(), torch.ones(4, 3), sizes=({0: _ROWS},), strict=strict)
    assert f"(dimension 0 of {name} % 2) == 0; dynamic_shapes include input 0: [3, 3]" in found
    assert not _messages(Even(), torch.ones(4, 3), sizes=({0: 2 * Dim("half", max=9)},), strict=strict)


def test_a_number_that_equals_a_size() -> None:
    """torch checks it in each call of the program."""
    assert not _messages(Counted(), torch.ones(5, 3), 5, sizes=({0: _ROWS}, Dim.AUTO))


def test_a_container_that_takes_tensors_only() -> None:
    pytree.register_pytree_node(
        Box,
        lambda box: ([box.value], None),
        lambda values, _: Box(*values),
        flatten_with_keys_fn=lambda box: ([(pytree.GetAttrKey("value"), box.value)], None),
    )
    assert not _messages(Even(), Box(torch.ones(4, 3)), sizes=([{0: _ROWS}],))
