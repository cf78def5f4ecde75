# SPDX-License-Identifier: Apache-2.0
"""Documentation of an operator table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from delegatec.backends.common.legend import Legend
from delegatec.backends.common.record import Entries, Record, named
from delegatec.backends.common.row import OperatorRow
from delegatec.backends.common.table import OperatorTable
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import Rewrite, Rewrites

Described = OperatorRow[Any, Any] | Rewrite


def operators_page(
    table: OperatorTable[Any, Any], rewrites: Rewrites, record: Record, delegate: str, folder: str
) -> str:
    """Returns a page of the docs: the constraints of all operators, a table per family, and a legend.

    Args:
        table: the operator table.
        rewrites: for calls that it does not support.
        record: operations recorded by tests.
        delegate: name of the delegate for users, such as "MPS".
        folder: the table's directory, relative to the repository root.
    """
    rewritten = [*named(rewrites)]
    described: tuple[Described, ...] = (*table.rows.values(), *(rewrite for _, rewrite in rewritten))
    legend = Legend(constraint for each in described for constraint in _constraints(each))
    lines = [
        f"# Operators of the {delegate} delegate",
        "",
        f"Generated from the tables in `{folder}`; do not edit.",
        f"{len({*table.rows, *rewrites})} ATen overloads are supported. Others stay outside of the "
        "delegate; the report states the violated constraint: its rule, such as `dtype`, and its text.",
        "",
        "An overload becomes one or several operations of the format: the second column lists those in its "
        "tests, including conversions between dtypes. Constraints that several operators have are cited by "
        "name: the [legend](#legend) explains them.",
        "",
        "Constraints of every operator:",
        "",
        *(f"- `{constraint.rule}`: {constraint.doc}" for constraint in table.universal),
    ]
    for family, rows in table.families.items():
        lines += [
            "",
            f"## {family}",
            "",
            *_section(rows, [str(row.target) for row in rows], record.rows, legend),
        ]
    lines += [
        "",
        "## Rewritten",
        "",
        "A call that these rows do not support becomes calls of other operators of this page.",
        "",
        *_section([each for _, each in rewritten], [name for name, _ in rewritten], record.rewrites, legend),
        "",
        "## Legend",
        "",
        "| Name | Constraint |",
        "|---|---|",
        *legend.lines(),
    ]
    return "\n".join(lines) + "\n"


def _section(
    described: Sequence[Described], names: Sequence[str], entries: Entries, legend: Legend
) -> Iterator[str]:
    """Yields the lines of a table, after the constraints that each of its rows has."""
    cited = [[legend.cite(constraint) for constraint in _constraints(each)] for each in described]
    common = [cite for cite in cited[0] if len(cited) > 1 and all(cite in each for each in cited)]
    if common:
        yield from (f"Constraints of each: {', '.join(common)}.", "")
    yield from ("| Overload | Becomes | Constraints and notes |", "|---|---|---|")
    for each, name, cites in zip(described, names, cited, strict=True):
        made = (text.removeprefix("aten.").removesuffix(".default") for text in sorted(entries.get(name, ())))
        note = [f"{each.note[0].upper()}{each.note[1:]}."] if each.note else []
        remarks = [*(cite for cite in cites if cite not in common), *note]
        yield f"| `{each.target}` | {', '.join(made) or '-'} | {'<br>'.join(remarks)} |"


def _constraints(described: Described) -> tuple[Constraint[Any], ...]:
    known = described.known if isinstance(described, OperatorRow) else ()
    return (*described.constraints, *known)
