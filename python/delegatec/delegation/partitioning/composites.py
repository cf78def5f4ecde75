# SPDX-License-Identifier: Apache-2.0
"""Decomposition of composite operators, depending on backends and the runtime's kernels.

The runtime has kernels for some composites (`edge.KERNEL_COMPOSITES`) that are better than their
decomposition. A backend may support composites (`Backend.preserved_operators`), or their decomposition, or
neither. Before the partitioner of each backend runs, in order of priority, a composite is decomposed if this
backend supports the decomposition, or if no later backend and no kernel supports the composite. After
delegation, the remaining composites without a kernel are decomposed.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable, Sequence
from functools import partial
from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.delegation.delegates.original import Original
from delegatec.delegation.partitioning.checks import innermost_partitioner, query
from delegatec.delegation.partitioning.ruled_partitioner import RuledPartitioner
from delegatec.delegation.protocol.partitioner import Partitioner
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.arguments import tensors
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.legalize.normal_form import decompose
from delegatec.edge.passes.pass_manager import end_stage, run_pass, run_passes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature

_NONE: Final[frozenset[OpOverload]] = frozenset()
_PREPARED: Final = {torch.ops.aten.matmul.default}
"""Composites that preparations of partitioners create, see `edge/passes/unflatten_bmm.py`."""


def decompose_for(
    program: EdgeProgram,
    partitioner: Partitioner,
    preserved: frozenset[OpOverload],
    *,
    earlier: frozenset[OpOverload] = _NONE,
    later: frozenset[OpOverload] = _NONE,
) -> None:
    """Decomposes composites that would hide operators from a backend, before its partitioner runs.

    Operators that only backends of higher priority preserve are decomposed. Those with a kernel, and those
    that backends of lower priority preserve, are decomposed if the partitioner supports the decomposition.

    Args:
        program: edited in place.
        partitioner: the backend's.
        preserved: operators that the backend preserves.
        earlier: operators preserved by the backends of higher priority.
        later: operators preserved by the backends of lower priority.
    """
    may_stay = (KERNEL_COMPOSITES | later) - preserved
    hidden = earlier - preserved - may_stay
    trial = _Trial(partitioner, preserved)
    changed = False
    for part in program.walk():
        if any(node.target in hidden for node in part.graph.nodes):
            changed |= run_pass(part, partial(decompose, preserve=preserved | may_stay))
        composites = [node for node in part.graph.nodes if node.target in may_stay]
        kept = {node for node in composites if not trial.supports_parts(part, node)}
        if len(kept) < len(composites):
            changed |= run_pass(part, partial(decompose, preserve=preserved, kept=kept))
    if changed:
        run_passes(program, SIMPLIFY)


def decompose_rejected(program: EdgeProgram, preserved: Collection[OpOverload]) -> None:
    """Decomposes, after delegation, the remaining composites that have no kernel.

    Args:
        program: edited in place.
        preserved: operators that the backends preserved.
    """
    foreign = ({*preserved} | _PREPARED) - KERNEL_COMPOSITES
    left = [p for p in program.walk() if any(node.target in foreign for node in p.graph.nodes)]
    for part in left:
        run_pass(part, partial(decompose, preserve=KERNEL_COMPOSITES))
    if left:
        run_passes(program, SIMPLIFY)
        end_stage("decompose_rejected", program)


class _Trial:
    """Partitions the decomposition of one composite, as a separate program; memoized by call signature."""

    def __init__(self, partitioner: Partitioner, preserved: Collection[OpOverload]) -> None:
        self._partitioner = partitioner
        self._preserved = preserved
        self._answers: dict[Hashable, bool] = {}
        self._regions: dict[Node, bool] = {}

    def supports_parts(self, program: EdgeProgram, node: Node) -> bool:
        """Whether the partitioner supports the complete decomposition of a composite.

        If it does not support it alone, it may support it in a quantized region: there, without floating
        point, its operands and results have the dtype of the quantized values.
        """
        ruled = self._partitioner if isinstance(self._partitioner, RuledPartitioner) else None
        if ruled is not None and ruled.rules.rejection(node, program.origins):
            return False
        results = tuple(user for user in node.users if user.target is operator.getitem)
        key = (
            call_signature(node.target, node.args, node.kwargs),  # type: ignore[arg-type]
            tuple(source.name in program.constants for source in node.all_input_nodes),
            tuple(sorted(user.args[1] for user in results)),  # type: ignore[type-var]
        )
        if key not in self._answers:
            self._answers[key] = self._try(program, [node, *results])
        return self._answers[key] or self._supports_region(program, node)

    def _supports_region(self, program: EdgeProgram, node: Node) -> bool:
        if node not in self._regions:
            region = _float_region(program, node)
            answer = bool(region) and self._try(
                program, [each for each in program.graph.nodes if each in region]
            )
            self._regions |= dict.fromkeys([node, *region], answer)
        return self._regions[node]

    def _try(self, program: EdgeProgram, nodes: Sequence[Node]) -> bool:
        alone = Original(PartitionView(program, nodes, computes_sizes=True), program.specs_by_name()).program
        decompose(alone, self._preserved)
        run_passes(alone, SIMPLIFY)
        # Nodes that only move data belong to the group of adjacent nodes.
        rejections = query(innermost_partitioner(self._partitioner), alone).rejections
        return all(rejection.rule == "trivial" for rejection in rejections)


def _float_region(program: EdgeProgram, node: Node) -> set[Node]:
    """Returns the calls that floating-point values connect to a call; none if a value is from outside.

    These are all calls from dequantization to quantization.
    """
    found, pending = {node}, [node]
    while pending:
        call = pending.pop()
        near = [source for source in call.all_input_nodes if _is_float(source)]
        near += call.users if _is_float(call) else ()
        for each in near:
            if each.name in program.constants or each in found:
                continue
            if not isinstance(each.target, OpOverload) and each.target is not operator.getitem:
                return set()
            found.add(each)
            pending.append(each)
    return found


def _is_float(node: Node) -> bool:
    return any(each.dtype.is_floating_point for each in tensors(node.meta.get("val")))
