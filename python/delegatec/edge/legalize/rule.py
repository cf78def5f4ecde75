# SPDX-License-Identifier: Apache-2.0
"""The two forms of a decomposition, rules on nodes and functions on tensors, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Refusal:
    """Why a call is not legal, or a rule not applicable.

    Attributes:
        rule: stable short id of what it breaks, such as "dtype".
        message: what is wrong, with the offending value.
        help: what would make it legal; empty if nothing would.
    """

    rule: str
    message: str
    help: str = ""


# A rule computes what a node computes with other nodes, made by the builder in front of it. It returns the
# node that takes the place (one for each result of an operator with several, None for one that is not read),
# a refusal that says why it does not apply, or None where it just does not.
Rule = Callable[[Builder, Node], Any]
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
