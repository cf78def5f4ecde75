# SPDX-License-Identifier: Apache-2.0
"""Operators by dtypes in the stock runtime: repeats the measurements of grid_recorded.json."""

from __future__ import annotations

import pytest
from sampled_cases import part_of

from delegatec.edge.kernels import KERNELS
from delegatec.edge.out_variants import kernel_name, out_variant
from delegatec.program.symbolic import PRIMITIVES
from tests.operators.catalogue import overload
from tests.operators.sample import DTYPES
from tests.oracle.grid_measure import NAMES, WRONG, measure
from tests.oracle.grid_page import DOCS, NO_OPERATORS, RECORD, SECTION, render, summary
from tests.records.records import read, section, text_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROWS = read(RECORD)["cells"]


@pytest.mark.parametrize("name", NAMES)
def test_the_runtime_agrees_with_the_record(name: str) -> None:
    """Each operator, with a part of its dtypes, and with those that eager mode does not support."""
    part = part_of([number for number, cell in enumerate(ROWS[name]) if cell], 5, name)
    chosen = [number for number, cell in enumerate(ROWS[name]) if number in part or not cell]
    cells = [measure(name, DTYPES[number]) for number in chosen]
    wrong = [problem for cell in cells for problem in cell.wrong]
    assert wrong == []
    assert [*map(str, cells)] == [ROWS[name][number] for number in chosen]
    assert any(cell.passed or cell.refused for cell in cells)


def test_every_kernel_is_called() -> None:
    called = {kernel_name(variant) for name in NAMES if (variant := out_variant(overload(name)))}
    assert called.isdisjoint(NO_OPERATORS)
    assert called | set(NO_OPERATORS) == {k for k in KERNELS if not k.startswith("executorch_prim::")}


def test_the_summary_is_up_to_date() -> None:
    assert section(DOCS, SECTION) == summary(ROWS), "run `bazel run //tests/oracle:grid_page`"
    assert RECORD.read_text(encoding="utf-8") == text_of({"cells": ROWS})


def test_the_page_has_every_row() -> None:
    assert [name for name in ROWS if render(ROWS).count(f"\n| `aten.{name}` |") != 1] == []


def test_19_of_20_cells_pass() -> None:
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
