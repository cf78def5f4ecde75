# SPDX-License-Identifier: Apache-2.0
"""New constants of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.program import EdgeProgram


class NewConstants:
    """Adds constants to a program, with names derived from the original ones.

    They are inserted before all other placeholders. `declare` adds all their specs at once: the program's
    constants must not be queried before.

    Args:
        program: edited in place.

    Attributes:
        names: name of a placeholder -> its name in the model, including new ones.
    """

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self.names = program.names_in_model()
        self._specs: list[InputSpec] = []
        self._used_names = set(self.names.values())
        self._counters: dict[str, Iterator[int]] = {}

    def add(self, origin: str, value: torch.Tensor, like: Node) -> Node:
        """Adds a placeholder for a constant.

        Args:
            origin: the origin of its value, in the model's names; made unique, it becomes the constant's
                name.
            value: its value.
            like: the node that it replaces, whose metadata it inherits.
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
        """Adds the specs of the new placeholders, and returns whether there are any."""
        self._program.input_specs[:0] = reversed(self._specs)
        return bool(self._specs)

    def _unique(self, origin: str) -> str:
        for suffix in self._counters.setdefault(origin, count()):
            name = f"{origin}_{suffix}" if suffix else origin
            if name not in self._used_names:
                break
        self._used_names.add(name)
        return name
