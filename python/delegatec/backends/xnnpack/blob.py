# SPDX-License-Identifier: Apache-2.0
"""The blob of an XNNPACK delegate: a header, a FlatBuffer (schemas/xnnpack_graph.fbs), and bytes.

The runtime frees the blob when it has loaded it, although operations other than layers read their constants
at each run. So all constants are named data of the program, and the bytes are empty.

Source: the runtime's XNNHeader and XNNCompiler (ExecuTorch 1.4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.headed_format import HeadedFormat
from delegatec.backends.xnnpack.checks import fill_lists, problems_of
from delegatec.delegation import Part

_FORMAT: Final = HeadedFormat("XnnpackBackend", schema.GraphT, b"XN01", b"XH00", reads_header_size=False)


@dataclass(frozen=True)
class Blob:
    """An unpacked blob.

    Attributes:
        graph: its graph, unpacked.
        constants: the bytes behind the FlatBuffer.
    """

    graph: schema.GraphT
    constants: memoryview


def write_blob(graph: schema.GraphT) -> list[Part]:
    """Returns the parts of a blob whose constants are all named data.

    Args:
        graph: the graph.
    """
    return _FORMAT.write(graph)


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks everything that the runtime does, and what it relies on (`checks.problems_of`).

    Nothing is copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    flatbuffer, constants = _FORMAT.split(data.cast("B"))
    graph = _FORMAT.unpack(flatbuffer)
    fill_lists(graph)
    _FORMAT.check(problems_of(graph, len(constants)))
    return Blob(graph, constants)
