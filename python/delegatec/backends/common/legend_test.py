# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from delegatec.backends.common.legend import Legend
from delegatec.edge.legalize.constraint import Constraint


def constraint(rule: str, doc: str) -> Constraint[object]:
    return Constraint(rule, doc, lambda node, settings: None)


FLOATS = constraint("dtype", "Operands are float16 or float32: the runtime has no shaders for others.")


def test_what_one_row_has_is_not_abbreviated() -> None:
    legend = Legend([FLOATS])
    assert legend.cite(FLOATS) == f"`dtype`: {FLOATS.doc}"
    assert [*legend.lines()] == []


def test_what_several_rows_have_is_named_and_explained_once() -> None:
    assert Legend([FLOATS, FLOATS]).cite(FLOATS) == "`dtype:operands-f16/f32`"
    assert [*Legend([FLOATS, FLOATS]).lines()] == [f"| `dtype:operands-f16/f32` | {FLOATS.doc} |"]


def test_reasons_of_one_requirement_are_joined() -> None:
    reduced = constraint("dtype", "Operands are float16 or float32: the runtime reduces floats.")
    legend = Legend([FLOATS, reduced])
    assert legend.cite(FLOATS) == legend.cite(reduced) == "`dtype:operands-f16/f32`"
    (line,) = legend.lines()
    assert line.endswith("float32: the runtime has no shaders for others; the runtime reduces floats. |")


def test_names_are_as_long_as_they_differ() -> None:
    texts = ("The size of the dimension is static, or it is taken as a whole.", "The size is static.")
    static_size, static = (constraint("shape", text) for text in texts)
    longer = constraint("shape", "The size of the dimension is static, or one.")
    legend = Legend(2 * [static_size, static, longer])
    assert legend.cite(static) == "`shape:size-static`"
    assert legend.cite(static_size) == "`shape:size-dimension-static-taken`"
    assert legend.cite(longer) == "`shape:size-dimension-static-one`"


def test_the_rule_is_not_repeated() -> None:
    rank = constraint("rank", "Rank is at most 4: the shaders have four dimensions.")
    assert Legend([rank, rank]).cite(rank) == "`rank:most-4`"
