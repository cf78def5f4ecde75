# SPDX-License-Identifier: Apache-2.0
"""The partitioner: sizes that a program reads from a tensor stay outside of delegates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.legality import Legality
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.backends.mlx.dtypes import ALL
from delegatec.delegation import Rejection
from delegatec.edge.arguments import short_name
from delegatec.edge.control_flow import WHILE_LOOP
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.sizes_of_operands import depends_on_data
from delegatec.edge.program import EdgeProgram
from delegatec.edge.recurrent_loops import loop_recurrent_layers
from delegatec.edge.symbols import is_scalar, size_nodes
from delegatec.edge.trips import trips_of

_READ: Final = "a size that the program reads from a tensor: a delegate has sizes of its tensors only"

_SIZED: Final = "a size of a tensor of dtype {}, which a delegate cannot have as an input"

_UNBOUNDED: Final = "the number of its iterations has no bound that is known, and the format's loops have one"

_MOST_TRIPS: Final = 1 << 20
_MANY: Final = "up to {} iterations, for each of which the format's loop stores an integer"


class MlxLegality(Legality[Settings]):
    """Legality of the calls of one program."""

    def rejection(self, program: EdgeProgram, node: Node) -> Rejection | None:
        """See `Legality.rejection`."""
        if any(is_scalar(each) and depends_on_data(each) for each in node.all_input_nodes):
            return Rejection(node, "dynamic-shape", _READ, "compute the size from the shape of a tensor")
        sized = [each.args[0] for each in size_nodes([node]) if each.target is torch.ops.aten.sym_size.int]
        dtypes = {each.meta["val"].dtype for each in sized if isinstance(each, Node)} - ALL
        if dtypes:
            named = ", ".join(sorted(map(short_name, dtypes)))
            return Rejection(node, "dynamic-shape", _SIZED.format(named), "convert the tensor to float32")
        if node.target is WHILE_LOOP:
            trips = trips_of(program, node)
            if trips is None:
                return Rejection(
                    node, "argument", _UNBOUNDED, "end the loop by a counter that starts as a constant"
                )
            if trips.most > _MOST_TRIPS:
                return Rejection(node, "argument", _MANY.format(trips.most), "end the loop earlier")
        return super().rejection(program, node)


class MlxPartitioner(TablePartitioner[Settings]):
    """Rejects nodes whose sizes depend on data. Recurrent layers are loops of the format."""

    @property
    def preparation(self) -> Sequence[Pass]:
        """See `Partitioner.preparation`."""
        return (partial(loop_recurrent_layers, most_copied=0), *super().preparation)

    def legality(self, program: EdgeProgram) -> Legality[Settings]:
        """See `TablePartitioner.legality`."""
        return MlxLegality(self._target, self._prepare)
