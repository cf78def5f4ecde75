# SPDX-License-Identifier: Apache-2.0
"""Documentation of an operator table."""

from __future__ import annotations

import itertools
from typing import Any

from delegatec.backends.common.row import OperatorRow
from delegatec.backends.common.table import OperatorTable
from delegatec.edge.legalize.rule import Rewrite, Rewrites


def operators_page(table: OperatorTable[Any, Any], rewrites: Rewrites, delegate: str, folder: str) -> str:
    """Returns a page of the docs: the constraints of all operators, then a table for each family.

    Args:
        table: the operator table.
        rewrites: of calls that it does not take.
        delegate: name of the delegate for users, such as "MPS".
        folder: the table's directory, relative to the repository root.
    """
    lines = [
        f"# Operators of the {delegate} delegate",
        "",
        f"Generated from the tables in `{folder}`; do not edit.",
        f"{len({*table.rows, *rewrites})} ATen overloads are taken. What is not taken stays outside of the "
        "delegate, and the report says why, with the name that the constraint has here.",
        "",
        "An overload becomes one operation of the format, or several: the second column has all that any of "
        "its cases takes. Conversions that only bring operands to one dtype are not listed.",
        "",
        "Of every operator:",
        "",
        *(f"- `{constraint.rule}`: {constraint.doc}" for constraint in table.universal),
    ]
    for family, rows in table.families.items():
        lines += ["", f"## {family}", "", "| Overload | Becomes | Constraints and notes |", "|---|---|---|"]
        lines += [_line(row) for row in rows]
    lines += [
        "",
        "## Rewritten",
        "",
        "A call without a row, or one that its row refuses, becomes calls of other operators of this page.",
        "",
        "| Overload | Constraints and notes |",
        "|---|---|",
    ]
    lines += [f"| `{each.target}` | {_remarks(each)} |" for each in itertools.chain(*rewrites.values())]
    return "\n".join(lines) + "\n"


def _line(row: OperatorRow[Any, Any]) -> str:
    return f"| `{row.target}` | {', '.join(row.emits) or '-'} | {_remarks(row)} |"


def _remarks(described: OperatorRow[Any, Any] | Rewrite) -> str:
    remarks = [f"`{constraint.rule}`: {constraint.doc}" for constraint in described.constraints]
    if described.note:
        remarks.append(f"{described.note[0].upper()}{described.note[1:]}.")
    return "<br>".join(remarks)
