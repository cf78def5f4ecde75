# SPDX-License-Identifier: Apache-2.0
"""A check for comparisons of dynamic sizes: each leaves a guard that excludes sizes which are valid."""

from __future__ import annotations

from torch.utils._sympy.symbol import SymT, symbol_is_type

from delegatec.edge.legalize.guards import shape_environments
from delegatec.edge.program import EdgeProgram


def narrowed_sizes(program: EdgeProgram) -> dict[str, str]:
    """Returns symbol -> the range that lowering has left of it, if that is narrower than torch.export's.

    A number of elements that depends on values, as of `nonzero`, has at most the number of all elements.

    Args:
        program: a method after passes.
    """
    found: dict[str, str] = {}
    for shape_env in shape_environments(program.graph):
        for symbol, declared in program.range_constraints.items():
            left = shape_env.var_to_range.get(symbol, declared)
            # a multiple of a size, which Dim declares, is not a symbol
            is_count = symbol.is_symbol and symbol_is_type(symbol, SymT.UNBACKED_INT)
            if left.lower > declared.lower or (left.upper < declared.upper and not is_count):
                found[str(symbol)] = f"{left.lower} to {left.upper} of {declared.lower} to {declared.upper}"
    return found
