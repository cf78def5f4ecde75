# SPDX-License-Identifier: Apache-2.0
"""Matrix products, softmax and moves: their operations."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import Function, X, Y, floats
from delegatec.backends.xnnpack.operators.grid import rejected, run_case

BATCH = torch.export.Dim("batch", min=2, max=64)


def test_linear() -> None:
    run_case(torch.nn.Linear(4, 5), (X,), "FullyConnected")
    run_case(torch.nn.Linear(4, 5, bias=False), (X,), "FullyConnected")
    run_case(torch.nn.functional.linear, (X, floats(5, 4), floats(5)), "FullyConnected")


def test_products() -> None:
    run_case(torch.mm, (X[0], floats(4, 5)), "FullyConnected")
    run_case(torch.addmm, (floats(5), X[0], floats(4, 5)), "FullyConnected")
    run_case(torch.addmm, (floats(3, 5), X[0], floats(4, 5)), "FullyConnected Add")
    run_case(
        lambda a, x, y: torch.addmm(a, x, y, alpha=2, beta=3),
        (floats(5), X[0], floats(4, 5)),
        "FullyConnected Multiply Multiply Add",
    )
    run_case(torch.bmm, (X, Y.mT.contiguous()), "BatchMatrixMultiply")


def test_a_mlp_with_a_batch_that_varies() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    run_case(model, (floats(5, 4),), "FullyConnected Gelu FullyConnected", ({0: BATCH},))


def test_softmax() -> None:
    run_case(lambda x: x.softmax(-1), (X,), "Softmax")
    run_case(lambda x: x.softmax(0), (X,), "Transpose Softmax Transpose")


MOVES: dict[str, Function] = {
    "Reshape": lambda x: x.view(6, 4),
    "Transpose": lambda x: x.permute(2, 0, 1),
    "Slice": lambda x: x[:, 1:],
    "Slice Reshape": lambda x: x[:, -1],
    "Concatenate2": lambda x: torch.cat([x, x], 1),
    "Concatenate3": lambda x: torch.cat([x, x, x], 1),
    "Concatenate4": lambda x: torch.cat([x, x, x, x], 2),
    "Concatenate5": lambda x: torch.cat([x] * 5, 0),
    "Concatenate5 Concatenate2 Concatenate2": lambda x: torch.cat([x] * 7, 0),
    "ConstantPad": lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=0.5),
    "Reshape Multiply": lambda x: x[None].expand(5, 2, 3, 4),
}


@pytest.mark.parametrize("expected", MOVES)
def test_moves(expected: str) -> None:
    run_case(lambda x: MOVES[expected](x.neg()), (X,), f"Negate {expected}")


def test_a_split_is_a_slice_for_each_part() -> None:
    run_case(lambda x: x.neg().split([1, 3], 2), (X,), "Negate Slice Slice")


def test_reasons() -> None:
    assert "has no step" in rejected(lambda x: x.neg()[:, ::2].neg(), (X,))[0][2]
    assert "Rank is at most 6" in rejected(lambda x: x + 1.0, (X[None, None, None, None],))[0][2]
