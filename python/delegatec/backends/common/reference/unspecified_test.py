# SPDX-License-Identifier: Apache-2.0
"""Unspecified behavior of a fictitious runtime, which rounds and gathers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import torch

from delegatec.backends.common.reference.unspecified import UnspecifiedBehavior, depends_on
from delegatec.diagnostics import DelegatecError, Diagnostic


@dataclass(frozen=True)
class Imagined(UnspecifiedBehavior):
    runtime: ClassVar = "the imagined runtime"

    rounding: Literal["even", "up", "raise"] = "even"
    reads: Literal["raise", "first", "last"] = "raise"
    copies: Literal["copy", "raise"] = "copy"


def rounded_at(values: list[float], index: int, choices: Imagined) -> list[torch.Tensor]:
    """Returns the rounded values, and one of them, unless it is zero."""
    x = torch.tensor(values)
    way = choices.choose("rounding", lambda: x.frac() == 0.5, "Round of halves")
    x = x.round() if way == "even" else (x + 0.5).floor()
    outside = index >= len(values)
    way = choices.choose("reads", lambda: outside, f"the index {index}")
    one = x[(0 if way == "first" else -1) if outside else index]
    return [x, torch.where(one == 0, torch.nan, one)]


@pytest.mark.parametrize(
    ("values", "index", "found"),
    [
        ([1.25, 2.0], 0, []),
        ([1.25, 2.5], 0, ["rounding"]),
        ([1.5, 3.5], 0, []),  # even or up: the same
        ([1.25, 2.0], 2, ["reads"]),
        ([1.0, 1.0], 2, []),
        ([2.5, 1.0], 2, ["rounding", "reads"]),
    ],
)
def test_results_depend_on_behaviors(values: list[float], index: int, found: list[str]) -> None:
    assert depends_on(lambda choices: rounded_at(values, index, choices), Imagined(reads="first")) == found


def test_a_single_choice_that_may_show_counts() -> None:
    def run(choices: Imagined) -> list[torch.Tensor]:
        choices.choose("copies", lambda: True, "an output that is an input")
        return [torch.tensor([torch.nan, 1.0])]

    assert depends_on(run, Imagined(reads="first")) == ["copies"]


def test_errors_name_the_runtime() -> None:
    with pytest.raises(DelegatecError, match="unspecified behavior of the imagined runtime: Round"):
        rounded_at([0.5], 0, Imagined.strict())
    with pytest.raises(DelegatecError, match="the index 1") as error:
        rounded_at([0.5], 1, Imagined())
    assert error.value.diagnostics[0].code == "DC440"


def test_other_errors_are_not_caught() -> None:
    def run(choices: Imagined) -> list[torch.Tensor]:
        raise DelegatecError([Diagnostic("DC408", "it cannot run")])

    with pytest.raises(DelegatecError, match="it cannot run"):
        depends_on(run, Imagined())


def test_variants() -> None:
    assert Imagined.variants() == {
        "rounding=up": Imagined(rounding="up"),
        "reads=first": Imagined(reads="first"),
        "reads=last": Imagined(reads="last"),
    }
    assert Imagined.strict() == Imagined("raise", "raise", "raise")
