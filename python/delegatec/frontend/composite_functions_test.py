# SPDX-License-Identifier: Apache-2.0
"""Functions that torch.export cannot trace are exported, with the results of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.frontend.export import export
from delegatec.frontend.model import Model


def _noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


ROWS, TALL, RIGHT = _noise(3, 7), _noise(6, 3, seed=1), _noise(6, 2, seed=2)
COUNTS, SHARES = torch.tensor([1, 3, 2, 1, 1, 2, 4]), _noise(7, seed=3).abs()

CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "combinations": (lambda x: torch.combinations(x), (ROWS[0],)),
    "combinations_of_three": (lambda x: torch.combinations(x, 3), (ROWS[0],)),
    "combinations_with_replacement": (lambda x: torch.combinations(x, with_replacement=True), (ROWS[0],)),
    "combinations_of_more_than_there_are": (lambda x: torch.combinations(x, 8), (ROWS[0],)),
    "combinations_of_none": (lambda x: torch.combinations(x, 0) + 1, (ROWS[0],)),
    "cov": (lambda x: torch.cov(x), (ROWS,)),
    "cov_as_method": (lambda x: x.cov(correction=0), (ROWS,)),
    "cov_of_one_row": (lambda x: torch.cov(x), (ROWS[0],)),
    "cov_of_integers": (lambda x: torch.cov(x), ((ROWS * 5).int(),)),
    "cov_of_one_column": (lambda x: torch.cov(x), (ROWS[:, :1],)),
    "cov_of_complex_numbers": (lambda x: torch.cov(torch.complex(x, x.flip(0))).abs(), (ROWS,)),
    "cov_with_frequencies": (lambda x, f: torch.cov(x, fweights=f), (ROWS, COUNTS)),
    "cov_with_weights": (lambda x, a: torch.cov(x, aweights=a), (ROWS, SHARES)),
    "cov_with_both": (
        lambda x, f, a: torch.cov(x, correction=2, fweights=f, aweights=a),
        (ROWS, COUNTS, SHARES),
    ),
    "cov_imported": (torch.cov, (ROWS,)),
    "corrcoef_imported": (torch.corrcoef, (ROWS,)),
    "combinations_imported": (torch.combinations, (ROWS[0],)),
    "lstsq_imported": (torch.linalg.lstsq, (TALL, RIGHT)),
    "method_imported": (Tensor.corrcoef, (ROWS,)),
    "corrcoef": (lambda x: torch.corrcoef(x), (ROWS,)),
    "corrcoef_of_one_row": (lambda x: x.corrcoef(), (ROWS[0],)),
    "lstsq": (lambda a, b: torch.linalg.lstsq(a, b).solution, (TALL, RIGHT)),
    "lstsq_of_a_vector": (lambda a, b: torch.linalg.lstsq(a, b)[0], (TALL, RIGHT[:, 0].clone())),
    "lstsq_of_many": (lambda a, b: torch.linalg.lstsq(a.mT, b), (TALL[:4].expand(2, 4, 3), _noise(2, 3, 5))),
}


class _Net(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


@pytest.mark.filterwarnings("ignore:cov")
@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    function, inputs = CASES[name]
    wanted: Any = function(*inputs)
    (program,) = export(Model(_Net(function), inputs)).values()
    found: Any = program.module()(*inputs)
    is_one = isinstance(wanted, Tensor)
    for result, expected in zip(*([[found], [wanted]] if is_one else [found, wanted]), strict=True):
        torch.testing.assert_close(result, expected, atol=2e-5, rtol=2e-5, equal_nan=True)


def test_torch_is_as_before() -> None:
    before = torch.cov, torch.Tensor.cov, torch.linalg.lstsq
    export(Model(_Net(lambda x: torch.cov(x)), (ROWS,)))
    assert (torch.cov, torch.Tensor.cov, torch.linalg.lstsq) == before
