# SPDX-License-Identifier: Apache-2.0
"""Composite operators where both a backend and the runtime's kernels have a say.

The runtime has kernels for some composites (`edge.KERNEL_COMPOSITES`) that are better than their parts. A
backend may take them whole (`Backend.preserved_operators`), or only their parts, or neither. Each is taken
apart where a backend then takes the parts, and stays whole where it is left to the kernel. What a backend
wanted whole, left after all, and has no kernel, is taken apart for the kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable, Sequence
from functools import partial

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.delegation.checks import ask, author_of
from delegatec.delegation.original import Original
from delegatec.delegation.partitioner import Partitioner
from delegatec.delegation.ruled_partitioner import RuledPartitioner
from delegatec.delegation.view import PartitionView
from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.legalize.normal_form import decompose
from delegatec.edge.passes.pass_manager import end_stage, run_pass, run_passes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature


def decompose_for(
    program: EdgeProgram, partitioners: Sequence[Partitioner], preserved: Collection[OpOverload]
) -> bool:
    """Takes apart, before delegation, the composites of which a backend takes the parts.

    Args:
        program: edited in place; its composites with kernels are whole.
        partitioners: of the backends, in order of priority.
        preserved: operators that the backends want whole.

    Returns:
        Whether there were any.
    """
    trial = _Trial(partitioners, preserved)
    changed = False
    for part in program.walk():
        composites = [node for node in part.graph.nodes if _is_composite(node, preserved)]
        kept = {node for node in composites if not trial.takes_parts(part, node)}
        if len(kept) < len(composites):
            run_pass(part, partial(decompose, preserve=preserved, kept=kept))
            changed = True
    if changed:
        run_passes(program, SIMPLIFY)
    return changed


def decompose_left(program: EdgeProgram, preserved: Collection[OpOverload]) -> bool:
    """Takes apart, after delegation, what backends wanted whole, have left, and no kernel computes whole.

    Args:
        program: edited in place.
        preserved: operators that the backends wanted whole.

    Returns:
        Whether there were any.
    """
    foreign = set(preserved) - KERNEL_COMPOSITES
    left = [p for p in program.walk() if any(node.target in foreign for node in p.graph.nodes)]
    for part in left:
        run_pass(part, partial(decompose, preserve=KERNEL_COMPOSITES))
    if left:
        run_passes(program, SIMPLIFY)
        end_stage("decompose_left", program)
    return bool(left)


def _is_composite(node: Node, preserved: Collection[OpOverload]) -> bool:
    return node.target in KERNEL_COMPOSITES and node.target not in preserved


class _Trial:
    """Asks partitioners about the parts of one composite, as a program of its own; once for equal calls."""

    def __init__(self, partitioners: Sequence[Partitioner], preserved: Collection[OpOverload]) -> None:
        self._partitioners = partitioners
        self._preserved = preserved
        self._answers: dict[Hashable, bool] = {}

    def takes_parts(self, program: EdgeProgram, node: Node) -> bool:
        """Whether one of the partitioners would take all parts of a composite."""
        results = tuple(user for user in node.users if user.target is operator.getitem)
        key = (
            call_signature(node.target, node.args, node.kwargs),  # type: ignore[arg-type]
            tuple(source.name in program.constants for source in node.all_input_nodes),
            tuple(sorted(user.args[1] for user in results)),  # type: ignore[type-var]
            tuple(_forbids(partitioner, node) for partitioner in self._partitioners),
        )
        if key not in self._answers:
            self._answers[key] = self._try(program, node, results)
        return self._answers[key]

    def _try(self, program: EdgeProgram, node: Node, results: Sequence[Node]) -> bool:
        willing = [author_of(p) for p in self._partitioners if not _forbids(p, node)]
        if not willing:
            return False
        alone = Original(PartitionView(program, [node, *results]), {}).program
        decompose(alone, self._preserved)
        run_passes(alone, SIMPLIFY)
        # A part that only moves data goes with what is around it.
        return any(
            all(rejection.rule == "trivial" for rejection in ask(partitioner, alone).rejections)
            for partitioner in willing
        )


def _forbids(partitioner: Partitioner, node: Node) -> bool:
    """Whether a user's rules keep a composite from a backend."""
    return isinstance(partitioner, RuledPartitioner) and partitioner.rules.rejection(node) is not None
