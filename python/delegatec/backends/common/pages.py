# SPDX-License-Identifier: Apache-2.0
"""Documentation of an operator table."""

from __future__ import annotations

from typing import Any

from delegatec.backends.common.row import OperatorRow
from delegatec.backends.common.table import OperatorTable


def operators_page(table: OperatorTable[Any, Any], delegate: str, folder: str) -> str:
    """Returns a page of the docs: the constraints of all operators, then a table for each family.

    Args:
        table: the operator table.
        delegate: name of the delegate for users, such as "MPS".
        folder: the table's directory, relative to the repository root.
    """
    lines = [
        f"# Operators of the {delegate} delegate",
        "",
        f"Generated from the tables in `{folder}`; do not edit.",
        f"{len(table.rows)} ATen overloads are taken. What is not taken stays outside of the delegate, and "
        "the report says why, with the name that the constraint has here.",
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
    return "\n".join(lines) + "\n"


def _line(row: OperatorRow[Any, Any]) -> str:
    remarks = [f"`{constraint.rule}`: {constraint.doc}" for constraint in row.constraints]
    if row.note:
        remarks.append(f"{row.note[0].upper()}{row.note[1:]}.")
    return f"| `{row.target}` | {', '.join(row.emits) or '-'} | {'<br>'.join(remarks)} |"
