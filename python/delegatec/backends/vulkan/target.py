# SPDX-License-Identifier: Apache-2.0
"""The Vulkan delegate as a target of legalization: a device may compute further calls wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.table import OperatorTable
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.memory.demands import result_values, tensor_operands
from delegatec.backends.vulkan.memory.sizes import largest_shape
from delegatec.backends.vulkan.operators.faulty_sizes import fault_of, size_of
from delegatec.backends.vulkan.operators.rewrites.avoid_faults import avoiding
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.rule import Refusal, Rewrites, rewrites
from delegatec.edge.symbols import largest


class VulkanTarget(TableTarget[Settings]):
    """Adds the device of the settings to the table: its faults, how to avoid them, and its largest buffer.

    Args:
        table: the rows.
        others: rules for calls that the runtime lacks.
        settings: the user's settings.
    """

    def __init__(self, table: OperatorTable[Any, Settings], others: Rewrites, settings: Settings) -> None:
        if settings.device.faults:
            lists = (avoiding(settings.device), others)
            others = rewrites(*(several for each in lists for several in each.values()))
        super().__init__(table, others, settings)

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`."""
        found = super().refusal(node, facts)
        if found is not None and found.rule != "constant":
            return found
        # before what is not known to be a constant, which the partitioner learns only from a rewrite
        return self._beyond(node) or self._faulty(node) or found

    def _beyond(self, node: Node) -> Refusal | None:
        limit = self.settings.device.buffer_bytes
        if limit is None:
            return None
        size = max(map(_bytes, _values(node)), default=0)
        if size <= limit:
            return None
        message = (
            f"a tensor of {size} bytes, more than {limit}, the largest buffer of {self.settings.device.name}"
        )
        return Refusal("size", message)

    def _faulty(self, node: Node) -> Refusal | None:
        device = self.settings.device
        fault, found = fault_of(node, device), size_of(node)
        if fault is None or found is None:
            return None
        name, size = found
        text = str(size) if isinstance(size, int) else f"up to {largest(size)}"
        what = name.partition(".")[2].replace("_", " ")
        message = f"{text} {what}. On {device.name}, {fault.effect}, and other sizes cannot replace this one"
        return Refusal("device", message)


def _values(node: Node) -> Iterator[Any]:
    yield from (each.meta["val"] for each in tensor_operands(node))
    yield from (each for each in result_values(node) if hasattr(each, "element_size"))


def _bytes(value: Any) -> int:
    count = value.element_size()
    for size in largest_shape(value):
        count *= size
    return int(count)
