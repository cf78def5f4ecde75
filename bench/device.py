# SPDX-License-Identifier: Apache-2.0
"""Memory and traffic on the device, from the Vulkan delegates of a program file of any compiler."""

from __future__ import annotations

from dataclasses import dataclass

from delegatec.backends.vulkan.backend import VULKAN
from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.memory.sharing import PREPACK, allocated_bytes
from delegatec.backends.vulkan.memory.transitions import operator_name, transitions
from delegatec.program.reader.model import Method


@dataclass
class DeviceUse:
    """The sums over all delegates.

    Attributes:
        calls: of operators, without those that pack constants before the first run.
        transitions: those that only copy a tensor to another storage or layout.
        moved: bytes that these read and write, with the padding of textures.
        memory: bytes that tensors share; packed constants have other memory.
    """

    calls: int = 0
    transitions: int = 0
    moved: int = 0
    memory: int = 0


def device_use(method: Method) -> DeviceUse:
    """Returns what a method uses."""
    use = DeviceUse()
    for delegate in method.delegates:
        if delegate.id != VULKAN.id:
            continue
        graph = read_blob(delegate.blob).graph
        found = list(transitions(graph))
        use.calls += sum(operator_name(call) != PREPACK for call in graph.chain)
        use.transitions += len(found)
        use.moved += sum(each.moved for each in found)
        use.memory += allocated_bytes(graph)
    return use
