# SPDX-License-Identifier: Apache-2.0
"""Partitions whose blob the backend's own reader refuses: a bug in the backend, which names the operator."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress

from torch.fx import Node

from delegatec.delegation.delegates.operators import operator_name
from delegatec.diagnostics import DelegatecError, Diagnostic

_DAMAGED = "DC407"


def is_refused(error: DelegatecError) -> bool:
    """Whether an error while a partition is compiled is about its blob: compilers read no other blobs."""
    return any(each.code == _DAMAGED for each in error.diagnostics)


def refused(
    error: DelegatecError, backend: str, nodes: Sequence[Node], compile: Callable[[Sequence[Node]], object]
) -> DelegatecError:
    """Returns DC419 for a partition, with the operator that its blob is refused for.

    It is the last one of the shortest prefix of the partition that is refused as well, found by bisection.

    Args:
        error: of the partition.
        backend: name of the backend.
        nodes: the partition, in topological order.
        compile: compiles some of its nodes as a partition.
    """
    # results of an operator stay in its prefix
    ends = [
        end
        for end in range(1, len(nodes) + 1)
        if end == len(nodes) or nodes[end].target is not operator.getitem
    ]
    accepted, failing = -1, len(ends) - 1
    while failing - accepted > 1:
        middle = (accepted + failing) // 2
        if _fails(nodes[: ends[middle]], compile):
            failing = middle
        else:
            accepted = middle
    start = ends[failing - 1] if failing else 0
    culprit = nodes[start]
    name = operator_name(culprit)
    return DelegatecError(
        Diagnostic(
            "DC419",
            f"the {backend} backend compiles {name} to a blob that its own reader refuses: "
            + each.message.partition(": ")[2],
            location=culprit.meta.get("source"),
            node=culprit.name,
            expected="a blob that the runtime accepts",
            help=f"this is a bug in the backend, not in the model: report it. Until it is corrected, add "
            f"{name} to block_operators",
        )
        for each in error.diagnostics
    )


def _fails(nodes: Sequence[Node], compile: Callable[[Sequence[Node]], object]) -> bool:
    """Whether the blob of some nodes is refused; other errors do not count."""
    with suppress(Exception):
        try:
            compile(nodes)
        except DelegatecError as error:
            return is_refused(error)
    return False
