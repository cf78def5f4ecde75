# SPDX-License-Identifier: Apache-2.0
"""The blob of an XNNPACK delegate: a header, a FlatBuffer (schemas/xnnpack_graph.fbs), and bytes.

Filters and biases, which the runtime copies when it loads a delegate, are named data of the program. Other
constants are in the bytes, because operations read them at each run: the runtime keeps a blob inside the
program's FlatBuffer. It frees a blob in a segment, and with its weight cache all named data.

Source: the runtime's XNNHeader and XNNCompiler (ExecuTorch 1.4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.headed_format import HeadedFormat
from delegatec.backends.xnnpack.checking.values import NAMED
from delegatec.backends.xnnpack.checks import fill_lists, problems_of
from delegatec.backends.xnnpack.operands import unpacked_fields
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.delegation import Part

_FORMAT: Final = HeadedFormat(
    "XnnpackBackend", schema.GraphT, b"XN01", b"XH00", fill_lists, problems_of, reads_header_size=False
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

    @property
    def kept_ids(self) -> set[int]:
        """The constants in `constants` that operations read at each run: the blob must not be freed."""
        tensors = map(tensor_of, self.graph.values)
        inner = {
            int(tensor.id)
            for tensor in tensors
            if tensor.constantId and self.graph.constants[tensor.constantId].offset != NAMED
        }
        return inner & {id for node in self.graph.nodes for _, id in unpacked_fields(node)}


def write_blob(graph: schema.GraphT, constants: Sequence[Part] = (), *, checked: bool = True) -> list[Part]:
    """Returns the parts of a blob.

    Args:
        graph: the graph.
        constants: the bytes after the FlatBuffer, of constants that are not named data.
        checked: whether `read_blob` must accept it.

    Raises:
        DelegatecError: DC407, with the problems for which `read_blob` would refuse it.
    """
    return _FORMAT.write(graph, constants, checked=checked)


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks what the runtime checks and what it relies on (`checks.problems_of`).

    Nothing is copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    flatbuffer, constants = _FORMAT.split(data.cast("B"))
    graph = _FORMAT.unpack(flatbuffer)
    _FORMAT.check_graph(graph, len(constants))
    return Blob(graph, constants)
