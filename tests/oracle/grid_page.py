# SPDX-License-Identifier: Apache-2.0
"""Operators by dtypes in the runtime: a record, a summary in docs/minimal_runtime.md, a page on request.

bazel run //tests/oracle:grid_page -- --page=/tmp/grid.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from torch._ops import OpOverload

from delegatec.program.kernels.limits import DEVIATIONS, LIMITS
from tests.operators.sample import DTYPES
from tests.oracle.grid_measure import AS_EAGER, NAMES, REWRITTEN, measure
from tests.records.records import ROOT, Row, parser, read, table, text_of, write_section

RECORD: Final = ROOT / "tests/oracle/grid_recorded.json"
DOCS: Final = ROOT / "docs/minimal_runtime.md"
SECTION: Final = "kernels by dtypes"

_Entry = TypeVar("_Entry")

_NAMES: Final = [str(dtype).removeprefix("torch.") for dtype in DTYPES]


_LEGEND: Final = f"""\
Every operator with a kernel in the runtime, called in the stock runtime and in eager mode: ranks 0 to 5,
broadcast, empty, transposed, with numbers, of mixed dtypes, NaN and infinities. `{AS_EAGER}`: the same
result; `{REWRITTEN}`: the same result by other operators or dtypes, because the kernel rejects the call,
computes it wrongly or is slow; a code: the compiler rejects the call, next to another sign only some of the
calls. Empty: eager mode does not support the call."""


# Kernels without a functional operator of ATen, and their use.
NO_OPERATORS: Final = {
    "aten::_local_scalar_dense": "called for the number in a tensor",
    "aten::copy_": "called for the new value of a buffer",
    "aten::index_put_": "called for new rows of a buffer",
    "aten::split_copy.Tensor_out": "slices instead, which are free if they are views",
    "aten::split_with_sizes_copy.out": "slices instead, which are free if they are views",
    "aten::sym_numel": "called for the number of elements of a dynamic shape",
    "aten::sym_size.int": "called for a dynamic size",
    "aten::unbind_copy.int_out": "selects instead",
    "dim_order_ops::_clone_dim_order.out": "tensors of a program are row-major",
    "dim_order_ops::_empty_dim_order.out": "tensors of a program are row-major",
    "dim_order_ops::_to_dim_order_copy.out": "tensors of a program are row-major",
    "et_copy::_d2h_copy.out": "the portable kernels have one device",
    "et_copy::_h2d_copy.out": "the portable kernels have one device",
}


def row(name: str) -> Row:
    """The results of one operator, by dtype."""
    return tuple(str(measure(name, dtype)) for dtype in DTYPES)


def summary(rows: Mapping[str, Row]) -> str:
    """Returns the part of the page that is in docs/minimal_runtime.md: counts and exceptions.

    Args:
        rows: operator -> its results, by dtype.
    """
    limits = [f"- `{target}` supports {limit.expected}." for target, limit in _operators(LIMITS)]
    deviations = [f"- `{target}`: {text}." for target, text in _operators(DEVIATIONS)]
    refused = [
        f"- `aten.{name}`: {text}." for name, cells in sorted(rows.items()) if (text := _refused(cells))
    ]
    parts = [
        f"{len(rows)} operators, {_counts(rows.values())}",
        "The compiler refuses calls of:",
        "\n".join(refused),
        "Limits of operators:",
        "\n".join(limits),
        "Known deviations:",
        "\n".join(deviations),
        "Kernels without an operator of ATen:",
        "\n".join(f"- `{kernel}`: {text}." for kernel, text in NO_OPERATORS.items()),
    ]
    return "\n\n".join(parts)


def _refused(cells: Row) -> str:
    """Returns the dtypes of calls that the compiler refuses, by code."""
    found: dict[str, list[str]] = {}
    for cell, dtype in zip(cells, _NAMES, strict=True):
        if "DC" in cell:
            found.setdefault(cell, []).append(dtype)
    return "; ".join(
        f"{'all' if code.startswith('DC') else 'some'} calls, {code.strip(f'{AS_EAGER}{REWRITTEN} ')}: "
        f"{'all dtypes' if len(dtypes) == len(_NAMES) else ', '.join(dtypes)}"
        for code, dtypes in found.items()
    )


def render(rows: Mapping[str, Row]) -> str:
    """Returns a page with all rows.

    Args:
        rows: operator -> its results, by dtype.
    """
    parts = [
        "# Operators and dtypes in the runtime",
        _LEGEND,
        summary(rows),
        table(("operator", *_NAMES), [(f"`aten.{name}`", *cells) for name, cells in sorted(rows.items())]),
    ]
    return "\n\n".join(parts) + "\n"


def _operators(table: Mapping[Any, _Entry]) -> list[tuple[OpOverload, _Entry]]:
    """The entries of a table that are about operators, by name."""
    entries = ((key, entry) for key, entry in table.items() if isinstance(key, OpOverload))
    return sorted(entries, key=lambda item: str(item[0]))


def _counts(rows: Iterable[Row]) -> str:
    """Returns the number of cells, by result."""
    cells = [cell for cells in rows for cell in cells if cell]
    same = sum(cell.startswith(AS_EAGER) for cell in cells)
    rewritten = sum(cell.startswith(REWRITTEN) for cell in cells)
    partly = sum(cell[0] in (AS_EAGER, REWRITTEN) and "DC" in cell for cell in cells)
    refused = len(cells) - same - rewritten
    return (
        f"{len(cells)} cells: {same} unchanged, {rewritten} rewritten ({partly} of both reject some calls),"
        f" {refused} rejected."
    )


def main() -> None:
    """Measures everything, and writes the record, the summary and, on request, the page."""
    flags = parser(__doc__.splitlines()[0]).parse_args()
    measured = not flags.recorded and {name: row(name) for name in NAMES}
    rows = measured or read(RECORD)["cells"]
    RECORD.write_text(text_of({"cells": rows}), encoding="utf-8")
    write_section(DOCS, SECTION, summary(rows))
    if flags.page:
        flags.page.write_text(render(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
