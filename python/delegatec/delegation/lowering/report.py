# SPDX-License-Identifier: Apache-2.0
"""The report of `to_backend`: delegates, and reasons for rejected nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import torch

from delegatec.delegation.delegates.lowered_module import LoweredModule
from delegatec.delegation.delegates.operators import operator_name
from delegatec.delegation.protocol.partitioner import Rejection
from delegatec.diagnostics import SourceLocation


@dataclass(frozen=True)
class DelegateSummary:
    """One delegate.

    Attributes:
        module: the delegate itself; `module.name` is its name in the graph.
        operators: operator -> number of nodes in the delegate that call it, sorted by name.
        multiplications: those of its layers and products.
        input_names: names of its operands in the owner's graph.
        output_names: former names of its outputs.
        constants: fully qualified name of each parameter, buffer or constant that it reads -> the tensor, as
            the model has it.
    """

    module: LoweredModule
    operators: dict[str, int]
    multiplications: int
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    constants: dict[str, torch.Tensor]


@dataclass(frozen=True)
class RejectionSummary:
    """Why one backend rejected one node: a `Rejection` that outlives the graph.

    Attributes:
        backend_id: the backend that rejected it.
        node: name of the node.
        operator: the operator it calls.
        rule: stable short id of the violated rule.
        message: the violation, with the value.
        help: how to make the backend support it.
        location: the user's line, if known.
        debug_handle: of the operator of the exported program that the node is a part of; 0 if unknown.
    """

    backend_id: str
    node: str
    operator: str
    rule: str
    message: str
    help: str
    location: SourceLocation | None
    debug_handle: int = 0


@dataclass
class DelegationReport:
    """The delegates of a program, and its rejected nodes.

    Attributes:
        delegates: in the order of their names.
        rejections: one per backend for each node that is not delegated.
        nodes_left: number of operator nodes (`getitem` and delegates not counted) that are not delegated.
        multiplications_left: those of the layers and products among them.
    """

    delegates: list[DelegateSummary] = field(default_factory=list)
    rejections: list[RejectionSummary] = field(default_factory=list)
    nodes_left: int = 0
    multiplications_left: int = 0

    @property
    def nodes_delegated(self) -> int:
        """Number of delegated operator nodes."""
        return sum(sum(delegate.operators.values()) for delegate in self.delegates)

    @property
    def operators(self) -> set[str]:
        """The operators of all nodes, delegated or not."""
        return {*(each.operator for each in self.rejections), *chain(*(d.operators for d in self.delegates))}

    @property
    def nodes_before(self) -> int:
        """Number of operator nodes before delegation, after decomposition of composites."""
        return self.nodes_left + self.nodes_delegated


def summarize_rejection(backend_id: str, rejection: Rejection) -> RejectionSummary:
    """Returns a rejection without its node."""
    return RejectionSummary(
        backend_id=backend_id,
        node=rejection.node.name,
        operator=operator_name(rejection.node),
        rule=rejection.rule,
        message=rejection.message,
        help=rejection.help,
        location=rejection.node.meta.get("source"),
        debug_handle=rejection.node.meta.get("debug_handle", 0),
    )
