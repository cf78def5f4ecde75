# SPDX-License-Identifier: Apache-2.0
"""Resolution of external weights of a program in a data file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.flat_tensor import NamedData
from delegatec.program.reader.model import Method, Tensor


def with_external_data(method: Method, entries: Mapping[str, NamedData]) -> Method:
    """Returns the method with the bytes of its external tensors, checked like in the runtime.

    Args:
        method: the method as it was read.
        entries: the entries of the data file; empty without one.

    Raises:
        DelegatecError: DC360, one diagnostic for each tensor that is missing, or has another dtype or shape.
    """
    problems: list[Diagnostic] = []
    values = []
    keys = [value.external_key for value in method.values if isinstance(value, Tensor) and value.external_key]
    if keys and not entries:
        message = f"the program loads {keys[0]!r} from a .ptd data file, but none is given"
        raise DelegatecError([Diagnostic("DC360", message, help="pass the .ptd as well: --ptd=FILE.ptd")])
    for value in method.values:
        if isinstance(value, Tensor) and value.external_key is not None:
            entry = entries.get(value.external_key)
            problem = _problem(value, entry)
            if problem is not None:
                problems.append(problem)
            elif entry is not None:
                value = replace(value, data=entry.data)
        values.append(value)
    if problems:
        raise DelegatecError({problem.message: problem for problem in problems}.values())
    return replace(method, values=tuple(values))


def _problem(tensor: Tensor, entry: NamedData | None) -> Diagnostic | None:
    key = tensor.external_key
    if entry is None or entry.shape is None:
        found = "lacks" if entry is None else "has no tensor for"
        message = f"the data file {found} {key!r}, which the program loads"
        return Diagnostic("DC360", message, help="pass the .ptd written from the same .pt2")
    shape = entry.shape
    if (shape.kind, shape.sizes, shape.dim_order) == (tensor.kind, tensor.sizes, tensor.dim_order):
        return None
    return Diagnostic(
        "DC360",
        f"{key!r} is {shape.kind.name}{list(shape.sizes)} in the data file",
        expected=f"{tensor.kind.name}{list(tensor.sizes)}, as in the program",
        help="pass the .ptd written from the same .pt2",
    )
