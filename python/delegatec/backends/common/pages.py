# SPDX-License-Identifier: Apache-2.0
"""Documentation of an operator table."""

from __future__ import annotations

from typing import Any

from delegatec.backends.common.record import Entries, Record, named
from delegatec.backends.common.row import OperatorRow
from delegatec.backends.common.table import OperatorTable
from delegatec.edge.legalize.rule import Rewrite, Rewrites


def operators_page(
    table: OperatorTable[Any, Any], rewrites: Rewrites, record: Record, delegate: str, folder: str
) -> str:
    """Returns a page of the docs: the constraints of all operators, then a table per family.

    Args:
        table: the operator table.
        rewrites: for calls that it does not support.
        record: operations recorded by tests.
        delegate: name of the delegate for users, such as "MPS".
        folder: the table's directory, relative to the repository root.
    """
    lines = [
        f"# Operators of the {delegate} delegate",
        "",
        f"Generated from the tables in `{folder}`; do not edit.",
        f"{len({*table.rows, *rewrites})} ATen overloads are supported. Others stay outside of the "
        "delegate; the report states the violated constraint by its name in this page.",
        "",
        "An overload becomes one or several operations of the format: the second column lists those in its "
        "tests, including conversions between dtypes.",
        "",
        "Constraints of every operator:",
        "",
        *(f"- `{constraint.rule}`: {constraint.doc}" for constraint in table.universal),
    ]
    for family, rows in table.families.items():
        lines += ["", f"## {family}", "", "| Overload | Becomes | Constraints and notes |", "|---|---|---|"]
        lines += [_line(str(row.target), record.rows, row) for row in rows]
    lines += [
        "",
        "## Rewritten",
        "",
        "A call that these rows do not support becomes calls of other operators of this page.",
        "",
        "| Overload | Becomes | Constraints and notes |",
        "|---|---|---|",
    ]
    lines += [_line(name, record.rewrites, rewrite) for name, rewrite in named(rewrites)]
    return "\n".join(lines) + "\n"


def _line(name: str, entries: Entries, described: OperatorRow[Any, Any] | Rewrite) -> str:
    made = (each.removeprefix("aten.").removesuffix(".default") for each in sorted(entries.get(name, ())))
    return f"| `{described.target}` | {', '.join(made) or '-'} | {_remarks(described)} |"


def _remarks(described: OperatorRow[Any, Any] | Rewrite) -> str:
    known = described.known if isinstance(described, OperatorRow) else ()
    remarks = [f"`{constraint.rule}`: {constraint.doc}" for constraint in (*described.constraints, *known)]
    if described.note:
        remarks.append(f"{described.note[0].upper()}{described.note[1:]}.")
    return "<br>".join(remarks)
