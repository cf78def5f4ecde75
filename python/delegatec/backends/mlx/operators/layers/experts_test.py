# SPDX-License-Identifier: Apache-2.0
"""Products with matrices that indices choose, such as those of experts: one node, without copies."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor

from delegatec.backends.common.testing import floats, ints
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.grid import PRECISIONS, run_case
from delegatec.backends.mlx.testing.nodes import run_node
from delegatec.diagnostics import DelegatecError

_X: Final = floats(5, 16)
_SCORES: Final = floats(5, 4, seed=1)
_MATRICES: Final = floats(4, 16, 24, seed=2)
_INDICES: Final = ints(5, high=4)


def _chosen(scores: Tensor) -> Tensor:
    return scores.topk(2).indices.reshape(-1)


def _rows(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 0)


def _from_the_left(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    return torch.bmm(_rows(x).unsqueeze(1), matrices[_chosen(scores)])


def _from_the_right(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    return torch.bmm(matrices[_chosen(scores)].mT, _rows(x).unsqueeze(2))


def _selected(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    return torch.bmm(_rows(x).unsqueeze(1), torch.index_select(matrices, 0, _chosen(scores)))


def _of_a_constant(x: Tensor, scores: Tensor, _: Tensor) -> Tensor:
    return torch.bmm(_MATRICES.to(x.dtype)[_chosen(scores)].mT, _rows(x).unsqueeze(2))


def _both(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    chosen = _chosen(scores)
    return torch.bmm(x.unsqueeze(1)[chosen], matrices[chosen])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("function", [_from_the_left, _from_the_right, _selected, _of_a_constant, _both])
def test_chosen_matrices_are_not_copied(function: Any, precision: str) -> None:
    compiled = run_case(function, (_X, _SCORES, _MATRICES), "", precision, rtol=1e-2, atol=1e-2)
    names = operations(compiled.blobs()[0])
    assert names.count("GatherMm") == 1 and not {"Addmm", "Take", "Gather"} & {*names}


def test_indices_that_may_be_negative() -> None:
    """ATen counts them from the end, the node does not."""

    def function(x: Tensor, indices: Tensor, matrices: Tensor) -> Tensor:
        return torch.bmm(x.unsqueeze(1), matrices[indices])

    run_case(
        function,
        (_X, _INDICES, _MATRICES),
        "ExpandDims Take Addmm",
        others=[(_X, torch.tensor([-1, 0, -4, 3, 1]), _MATRICES)],
    )


def test_slices_of_chosen_matrices() -> None:
    """Not all of the elements are operands."""

    def function(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
        return torch.bmm(_rows(x).unsqueeze(1), matrices[_chosen(scores)][:, :, ::2])

    run = run_case(function, (_X, _SCORES, _MATRICES), rtol=1e-4, atol=1e-5)
    assert "GatherMm" not in operations(run.blobs()[0])


@pytest.mark.parametrize("sides", ["rhs", "lhs", "both"])
def test_the_node(sides: str) -> None:
    left, right = floats(3, 2, 4), floats(3, 4, 5, seed=1)
    given = torch.tensor([2, 0, 0])
    operands = {"lhs": ["lhsIndices"], "rhs": ["rhsIndices"], "both": ["lhsIndices", "rhsIndices"]}[sides]
    (found,) = run_node("GatherMm", ["a", "b", *operands], [left, right, *[given] * len(operands)])
    first = left[given] if sides != "rhs" else left
    second = right[given] if sides != "lhs" else right
    torch.testing.assert_close(found, first @ second)


@pytest.mark.parametrize("index", [-1, 3])
def test_indices_beyond_the_matrices(index: int) -> None:
    operands = [floats(1, 2, 4), floats(3, 4, 5), torch.tensor([index])]
    with pytest.raises(DelegatecError, match=r"DC408.*beyond 3 matrices"):
        run_node("GatherMm", ["a", "b", "rhsIndices"], operands)
