# SPDX-License-Identifier: Apache-2.0
"""Unsupported calls are reported together: operator, line and the closest supported form."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.edge.testing import edge
from delegatec.program import emit
from delegatec.program.kernels.check import check_kernels

aten = torch.ops.aten
X = torch.ones(4, 4)


class Several(torch.nn.Module):
    """Three problems, on three lines."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.frexp(x)[0]
        b = torch.special.bessel_j0(a)
        return torch.linalg.svdvals(x) + b


def test_all_at_once_each_with_its_line() -> None:
    problems = check_kernels(edge(Several(), X))
    assert [problem.code for problem in problems] == ["DC201"] * 3
    assert [problem.message.split()[0] for problem in problems] == [
        *("aten.frexp.Tensor", "aten.special_bessel_j0.default", "aten.linalg_svdvals.default"),
    ]
    lines = [problem.location.text for problem in problems if problem.location]
    assert lines == [
        "a = torch.frexp(x)[0]",
        "b = torch.special.bessel_j0(a)",
        "return torch.linalg.svdvals(x) + b",
    ]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: torch.bincount(x.long()[0], minlength=4), "one_hot"),
        (lambda x: torch.frexp(x), "log2"),
        (lambda x: torch.linalg.svd(x), "computed outside the model"),
    ],
)
def test_the_closest_form_is_named(function: Any, expected: str) -> None:
    (problem,) = check_kernels(edge(function, X))
    assert problem.code == "DC201" and expected in problem.expected and problem.help


def test_antialiased_images_have_static_sizes() -> None:
    """The kernel does not resize its result, so that the runtime would fail at other sizes."""
    resize, x = aten._upsample_bilinear2d_aa.default, torch.ones(2, 3, 4, 4)
    assert not check_kernels(edge(lambda x: resize(x, [2, 2], False), x))
    batch = ({0: torch.export.Dim("batch", min=1, max=8)},)
    (problem,) = check_kernels(edge(lambda x: resize(x, [2, 2], False), x, dynamic_shapes=batch))
    assert problem.code == "DC201" and "static shape" in problem.expected


def test_dtypes() -> None:
    problems = check_kernels(edge(lambda x: x.to(torch.float8_e4m3fn).to(torch.float32), X))
    (problem,) = (problem for problem in problems if problem.code == "DC202")
    assert "float8_e4m3fn" in problem.message and "float32" in problem.expected


def test_sizes() -> None:
    problems = check_kernels(edge(lambda x: x.sum() + torch.zeros(2**40), X))
    assert any(each.code == "DC216" and "1099511627776" in each.message for each in problems)


def test_a_good_program_has_no_problems() -> None:
    assert check_kernels(edge(torch.nn.Linear(4, 4), X)) == []


def test_emit_reports_all_methods() -> None:
    programs = {
        "first": edge(lambda x: torch.frexp(x), X),
        "second": edge(lambda x: torch.special.bessel_j0(x), X),
        "third": edge(lambda x: x.view(-1), X, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)),
    }
    with pytest.raises(DelegatecError) as caught:
        emit(programs)
    assert [problem.code for problem in caught.value.diagnostics] == ["DC201", "DC201", "DC203"]


@pytest.mark.parametrize(
    ("function", "inputs", "words"),
    [
        (
            lambda x, n: torch.repeat_interleave(x, n, 0),
            (torch.ones(2, 3), torch.tensor([1, 3])),
            "output_size=",
        ),
        (lambda n: torch.arange(n.item()), (torch.tensor(3),), "torch._check(n <= 64)"),
    ],
)
def test_sizes_that_depend_on_data_say_how_to_bound_them(
    function: Any, inputs: tuple[torch.Tensor, ...], words: str
) -> None:
    with pytest.raises(DelegatecError) as caught:
        emit({"forward": edge(function, *inputs)})
    assert [problem.code for problem in caught.value.diagnostics] == ["DC203"]
    assert words in caught.value.diagnostics[0].help
