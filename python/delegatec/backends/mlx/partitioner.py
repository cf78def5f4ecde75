# SPDX-License-Identifier: Apache-2.0
"""The partitioner: sizes that a program reads from a tensor stay outside of delegates."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.common.legality import Legality
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.delegation import Rejection
from delegatec.edge.passes.sizes_of_operands import depends_on_data
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar

_READ: Final = "a size that the program reads from a tensor: a delegate has sizes of its tensors only"


class MlxLegality(Legality[Settings]):
    """Legality of the calls of one program."""

    def rejection(self, program: EdgeProgram, node: Node) -> Rejection | None:
        """See `Legality.rejection`."""
        if any(is_scalar(each) and depends_on_data(each) for each in node.all_input_nodes):
            return Rejection(node, "dynamic-shape", _READ, "compute the size from the shape of a tensor")
        return super().rejection(program, node)


class MlxPartitioner(TablePartitioner[Settings]):
    """Rejects nodes whose sizes depend on data."""

    def legality(self, program: EdgeProgram) -> Legality[Settings]:
        """See `TablePartitioner.legality`."""
        return MlxLegality(self._target, self._prepare)
