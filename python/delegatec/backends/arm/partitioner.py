# SPDX-License-Identifier: Apache-2.0
"""The partitioner: regions of quantized values are delegated as a whole, as integer arithmetic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from torch.fx import Node

from delegatec.backends.arm.conformance.limits import MOST_DIMENSIONS, MOST_NESTED
from delegatec.backends.arm.integer.features import Features
from delegatec.backends.arm.integer.legality import members, unsupported
from delegatec.backends.arm.integer.quantized_regions import Region, crossing, is_float, regions_of, sources
from delegatec.backends.arm.operators.block_scaled import computed_weight
from delegatec.backends.arm.settings import Settings
from delegatec.backends.common.legality import Legality, Prepare, TableTarget
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.delegation.delegates.extract import extract_view
from delegatec.delegation.protocol.partitioner import Rejection
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.control_flow import FORMS, nesting
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZING, QUANTIZING


class IntegerLegality(Legality[Settings]):
    """Determines which calls of a program are supported as parts of regions.

    Args:
        target: the backend.
        prepare: passes over a private program that run before legalization.
        program: the program.

    Attributes:
        converted: the calls of regions that become integer arithmetic.
    """

    def __init__(
        self, target: TableTarget[Settings], prepare: Sequence[Prepare], program: EdgeProgram
    ) -> None:
        super().__init__(target, prepare)
        self._specification = target.settings.specification
        self._features = Features.of(self._specification)
        self._rejected: dict[Node, Rejection] = {}
        self.converted: Collection[Node] = frozenset()
        if self._specification.integer:
            self._try_quantized_regions(program)

    def _try_quantized_regions(self, program: EdgeProgram) -> None:
        regions = regions_of(program, self._features.bools)
        made = () if self._features.bools else sources(program, regions)
        nodes = [node for node in program.graph.nodes if node in regions or node in made]
        if not any(region.is_quantized for region in regions.values()):
            self._rejected = {} if self._specification.floating else dict(_floating(regions))
            return
        private = extract_view(PartitionView(program, nodes), program.specs_by_name())
        originals = {node.name: node for node in nodes}
        facts = Facts(private.fixed_constants())
        found = unsupported(private, facts, self._features, super().rejection)
        rejected: dict[Region, Rejection] = {}
        for each in found.values():
            node = originals[each.node.name]
            rejected[regions[node]] = Rejection(node, each.rule, each.message, each.help)
        self.converted = members(
            [region for region in dict.fromkeys(regions.values()) if region not in rejected]
        )
        if not self._specification.floating:
            self._rejected = {
                node: _part_of(node, each) for region, each in rejected.items() for node in region.nodes
            }

    def rejection(self, program: EdgeProgram, node: Node) -> Rejection | None:
        """See `Legality.rejection`."""
        if node in self.converted:
            return None
        found = self._rejected.get(node) or super().rejection(program, node)
        computed = None if found is not None else computed_weight(program, node)
        return found if computed is None else Rejection(node, "argument", computed)


def _floating(regions: Mapping[Node, Region]) -> Iterator[tuple[Node, Rejection]]:
    """Yields the reason for each call of a program without quantized values."""
    help = "quantize the model, or add the profile FP to the specification"
    for node in regions:
        yield node, Rejection(node, "quantized", "it is floating point, without quantization", help)


def _part_of(node: Node, reason: Rejection) -> Rejection:
    """Returns the reason of a region for one of its calls."""
    if node is reason.node:
        return reason
    return Rejection(node, reason.rule, f"{reason.node.name} is not supported: {reason.message}", reason.help)


class ArmPartitioner(TablePartitioner[Settings]):
    """Delegates regions of quantized values as a whole.

    Without the profile FP, no floating-point value crosses the boundary of a delegate or is inside it.
    """

    @property
    def most_rank(self) -> int:
        """See `TablePartitioner.most_rank`."""
        return MOST_DIMENSIONS

    def legality(self, program: EdgeProgram) -> IntegerLegality:
        """See `TablePartitioner.legality`."""
        return IntegerLegality(self._target, self._prepare, program)

    def rejection(self, program: EdgeProgram, node: Node, legality: Legality[Settings]) -> Rejection | None:
        """See `TablePartitioner.rejection`."""
        depth = nesting(program, node) if node.target in FORMS else 0
        if depth > MOST_NESTED:
            message = f"control flow nested {depth} deep; the limit is {MOST_NESTED}"
            return Rejection(node, "nesting", message)
        return super().rejection(program, node, legality)

    def movable(self, program: EdgeProgram, nodes: Sequence[Node]) -> Collection[int]:
        """See `TablePartitioner.movable`. A dequantization is where its value is used."""
        found = super().movable(program, nodes)
        return {*found, *(index for index, node in enumerate(nodes) if node.target in DEQUANTIZING)}

    def misplaced(self, program: EdgeProgram, nodes: Sequence[Node]) -> Sequence[Rejection]:
        """See `Partitioner.misplaced`."""
        if self._target.settings.specification.floating:
            return ()
        bools = Features.of(self._target.settings.specification).bools
        found = crossing(nodes, bools)
        if not found:
            return ()
        regions = regions_of(program, bools)
        bad = members({regions[node] for node in found})
        what = "floating-point" if any(map(is_float, found)) else "bool"
        message = f"its {what} values would be exchanged with nodes outside of the delegate"
        return [Rejection(node, "boundary", message) for node in nodes if node in bad]

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """See `TablePartitioner.is_worthwhile`. Other parameters are worth a call, too."""
        return super().is_worthwhile(nodes) or any(node.target in QUANTIZING for node in nodes)
