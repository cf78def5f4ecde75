# SPDX-License-Identifier: Apache-2.0
"""The two forms of a decomposition, rules on nodes and functions on tensors, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.builder import Builder

# A function computes what an operator computes with others of torch, on tensors, and takes the operator's
# arguments. It is traced, once for each distinct call signature: slower than a rule, and easier to read. It
# returns NotImplemented where it does not apply; and, for an operator with several results, None in the place
# of one that it does not compute. Its own tensors must come from operators, such as `arange`.
Function = Callable[..., Any]
FunctionTable = Mapping[OpOverload, Function]

# A rule computes what a node computes with other nodes, made by the builder in front of it. It returns the
# node that takes the place (one for each result of an operator with several), a function that does it, or
# None where it does not apply.
Rule = Callable[[Builder, Node], Node | Sequence[Node] | Function | None]
RuleTable = Mapping[OpOverload, Rule]

_Decomposition = TypeVar("_Decomposition", Rule, Function)


def merge(*tables: Mapping[OpOverload, _Decomposition]) -> dict[OpOverload, _Decomposition]:
    """One table of all; two decompositions of one operator are a mistake of ours."""
    merged: dict[OpOverload, _Decomposition] = {}
    for table in tables:
        for operator, decomposition in table.items():
            assert operator not in merged, f"two decompositions of {operator}"
            merged[operator] = decomposition
    return merged
