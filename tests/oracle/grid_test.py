# SPDX-License-Identifier: Apache-2.0
"""Operators by dtypes in the stock runtime: repeats the measurements of docs/kernel_grid.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from delegatec.edge.kernels import KERNELS
from delegatec.edge.out_variants import kernel_name, out_variant
from delegatec.program.symbolic import PRIMITIVES
from tests.oracle.grid import SAMPLES
from tests.oracle.grid_measure import WRONG, measure, overload
from tests.oracle.grid_page import NO_OPERATORS, parse, render
from tests.oracle.grid_sample import DTYPES

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PAGE = (Path(__file__).parents[2] / "docs" / "kernel_grid.md").read_text(encoding="utf-8")
ROWS = parse(PAGE)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_runtime_agrees_with_the_page(name: str) -> None:
    cells = [measure(name, dtype) for dtype in DTYPES]
    wrong = [problem for cell in cells for problem in cell.wrong]
    assert wrong == []
    assert tuple(map(str, cells)) == ROWS[name]
    assert any(cell.passed or cell.refused for cell in cells)


def test_every_kernel_is_called() -> None:
    called = {kernel_name(variant) for name in SAMPLES if (variant := out_variant(overload(name)))}
    assert called.isdisjoint(NO_OPERATORS)
    assert called | set(NO_OPERATORS) == {k for k in KERNELS if not k.startswith("executorch_prim::")}


def test_the_page_is_as_it_is_rendered_and_19_of_20_cells_pass() -> None:
    assert render(ROWS) == PAGE
    cells = [cell for cells in ROWS.values() for cell in cells if cell]
    passing = [cell for cell in cells if cell != WRONG and not cell.startswith("DC")]
    assert len(cells) > 1500 and len(passing) >= 0.95 * len(cells)


def test_every_primitive_is_emitted_or_accounted_for() -> None:
    emitted = {f"{name}.{rest}" for name, rest in PRIMITIVES.values()}
    missing = {kernel for kernel in KERNELS if kernel.startswith("executorch_prim::")} - emitted
    assert missing <= {
        "executorch_prim::et_copy_index.tensor",  # by the emission of map and scan
        "executorch_prim::et_view.default",  # views are elided by the memory plan, at no cost
        "executorch_prim::floordiv.int",  # as floordiv.Scalar
        "executorch_prim::mod.int",  # as mod.Scalar
    }
