# SPDX-License-Identifier: Apache-2.0
"""Constants that a pass makes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.program import EdgeProgram


class NewConstants:
    """Adds constants to a program, and names them after what they were made of.

    They stand in front of all other placeholders, so that the order of the user's inputs stays. Their specs
    are added all at once, by `declare`: until then the program is not to be asked for its constants.

    Args:
        program: gets the constants.

    Attributes:
        names: name of each placeholder that stands for a part of the model -> its name there; new ones
            included.
    """

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self.names = program.names_in_model()
        self._specs: list[InputSpec] = []
        self._taken = set(self.names.values())
        self._numbers: dict[str, Iterator[int]] = {}

    def add(self, origin: str, value: torch.Tensor, like: Node) -> Node:
        """Adds a placeholder for a constant.

        Args:
            origin: what it was made of, in the model's names; made unique, it becomes the constant's own.
            value: its value.
            like: the node that it stands for, whose metadata it takes over.
        """
        graph = self._program.graph
        with graph.inserting_before(next(iter(graph.nodes))):
            constant = graph.placeholder(f"c_{like.name}")
        constant.meta = dict(like.meta)
        self._program.constants[constant.name] = value.contiguous()
        name = self.names[constant.name] = self._unique(origin)
        self._specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), name))
        return constant

    def declare(self) -> bool:
        """Gives the program the specs of its new placeholders; whether there are any."""
        self._program.input_specs[:0] = reversed(self._specs)
        return bool(self._specs)

    def _unique(self, origin: str) -> str:
        for number in self._numbers.setdefault(origin, count()):
            name = f"{origin}_{number}" if number else origin
            if name not in self._taken:
                break
        self._taken.add(name)
        return name
