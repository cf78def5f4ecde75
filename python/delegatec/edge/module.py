# SPDX-License-Identifier: Apache-2.0
"""Edge programs as modules, called like the exported method, with or without delegates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from delegatec.edge.interpret import interpret
from delegatec.edge.program import EdgeProgram


class EdgeModule(torch.nn.Module):
    """Runs a program, before or after delegation.

    Buffers that the program writes to keep their new values between calls, as copies. Writes to inputs go to
    the caller's tensors.

    Args:
        program: the program.
    """

    def __init__(self, program: EdgeProgram) -> None:
        super().__init__()
        self.program = program
        self._state = {
            name: program.constants[name].clone()
            for name in program.mutated_inputs()
            if name in program.constants
        }

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program once.

        Args:
            *args: arguments of the exported method.
            **kwargs: keyword arguments of the exported method.

        Returns:
            The results of the exported method.

        Raises:
            ValueError: the number of inputs is wrong.
        """
        inputs = pytree.tree_leaves((args, kwargs))
        constants = {**self.program.constants, **self._state}
        results = interpret(replace(self.program, constants=constants), inputs)
        specs = self.program.output_specs
        names = {node.name: value for node, value in zip(self.program.user_inputs(), inputs, strict=True)}
        attributes = {target: name for name, target in self.program.names_in_model().items()}
        for result, spec in zip(results, specs, strict=True):
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                names[str(spec.target)].copy_(result)
            elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                self._state[attributes[str(spec.target)]] = result.clone()
        returned = [
            result for result, spec in zip(results, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT
        ]
        return pytree.tree_unflatten(returned, self.program.out_spec)
