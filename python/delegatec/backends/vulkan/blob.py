# SPDX-License-Identifier: Apache-2.0
"""The blob of a Vulkan delegate: a header, a FlatBuffer (schemas/vulkan_graph.fbs), and bytes.

Constants may also be named data of the program, next to the blobs: then one copy serves several of them.

Source: the runtime's VulkanDelegateHeader and VulkanBackend (ExecuTorch 1.4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.common.headed_format import HeadedFormat
from delegatec.backends.vulkan.checks import fill_lists, problems_of
from delegatec.delegation import Part

_FORMAT: Final = HeadedFormat(
    "VulkanBackend", schema.GraphT, b"VK00", b"VH00", fill_lists, problems_of, reads_header_size=True
)


@dataclass(frozen=True)
class Blob:
    """An unpacked blob.

    Attributes:
        graph: its graph, unpacked.
        constants: the bytes after the FlatBuffer.
    """

    graph: schema.GraphT
    constants: memoryview


def write_blob(graph: schema.GraphT, *, checked: bool = True) -> list[Part]:
    """Returns the parts of a blob whose constants are all named data.

    Args:
        graph: the graph.
        checked: whether `read_blob` must accept it.

    Raises:
        DelegatecError: DC407, with the problems for which `read_blob` would refuse it.
    """
    return _FORMAT.write(graph, checked=checked)


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks that everything in it is in bounds (`checks.problems_of`). Nothing is copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    flatbuffer, constants = _FORMAT.split(data.cast("B"))
    graph = _FORMAT.unpack(flatbuffer)
    _FORMAT.check_graph(graph, len(constants))
    return Blob(graph, constants)
