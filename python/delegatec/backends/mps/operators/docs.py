# SPDX-License-Identifier: Apache-2.0
"""The operator table as a page of the docs."""

from __future__ import annotations

from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.table import TABLE


def render_markdown() -> str:
    """The page: what holds for all operators, then a table for each family."""
    lines = [
        "# Operators of the MPS delegate",
        "",
        "Generated from the tables in `python/delegatec/backends/mps/operators`; do not edit.",
        f"{len(TABLE.rows)} ATen overloads are taken. What is not taken stays outside of the delegate, and "
        "the report says why, with the name that the constraint has here.",
        "",
        "An overload becomes one operation of the format, or several: the second column has all that any of "
        "its cases takes. Conversions that only bring operands to one dtype are not listed.",
        "",
        "Of every operator:",
        "",
        *(f"- `{constraint.rule}`: {constraint.doc}" for constraint in TABLE.universal),
    ]
    for family, rows in TABLE.families.items():
        lines += ["", f"## {family}", "", "| Overload | Becomes | Constraints and notes |", "|---|---|---|"]
        lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: OperatorRow) -> str:
    remarks = [f"`{constraint.rule}`: {constraint.doc}" for constraint in row.constraints]
    if row.note:
        remarks.append(f"{row.note[0].upper()}{row.note[1:]}.")
    return f"| `{row.target}` | {', '.join(row.emits) or '-'} | {'<br>'.join(remarks)} |"
