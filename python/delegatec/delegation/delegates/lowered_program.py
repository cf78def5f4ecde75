# SPDX-License-Identifier: Apache-2.0
"""A program lowered to one delegate, as a module with the program's signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export.graph_signature import OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from delegatec.delegation.delegates.lowered_module import LoweredModule
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.mapping import DebugHandleMap
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram


class LoweredProgram(torch.nn.Module):
    """A complete program, lowered to one delegate.

    The delegate has flat inputs in the order of their first use, and the computed results. The program may
    have nested and unused arguments, return an argument, a constant or a scalar, and write to its buffers:
    the module does all that around the call of the delegate. It has its own copy of mutable state. It can be
    called in eager mode, printed, and exported by torch.export as a part of a larger module, in which the
    delegate stays one `call_delegate`.

    Args:
        delegate: the delegate.
        program: the original program; not edited.

    Attributes:
        delegate: as given.
        original_program: as given.
    """

    def __init__(self, delegate: LoweredModule, program: EdgeProgram) -> None:
        super().__init__()
        self.delegate = delegate
        self.original_program = program
        self._user_inputs = [node.name for node in program.user_inputs()]
        self._delegate_inputs = [node.name for node in delegate.original.inputs]
        self._delegate_outputs = [node.name for node in delegate.original.outputs]
        results: Any = program.output_node().args[0]
        self._results = [(isinstance(result, Node), getattr(result, "name", result)) for result in results]
        self._kinds = [(spec.kind, spec.target) for spec in program.output_specs]
        self._state: dict[str, str] = {}  # name of a placeholder -> attribute with its value
        self._written: dict[str, str] = {}  # name in the model -> attribute
        names = program.names_in_model()
        for name in program.mutated_inputs():
            if name in names:
                attribute = "state_" + names[name].replace(".", "_")
                self.register_buffer(attribute, program.constants[name].clone())
                self._state[name] = self._written[names[name]] = attribute
        returned = {name for is_node, name in self._results if is_node}
        self._constants = {
            name: value
            for name, value in program.constants.items()
            if name in returned and name not in self._state
        }

    @property
    def backend_id(self) -> str:
        """Id of its backend."""
        return self.delegate.backend_id

    @property
    def compile_specs(self) -> list[CompileSpec]:
        """Settings of its backend."""
        return self.delegate.compile_specs

    @property
    def debug_handle_map(self) -> DebugHandleMap:
        """The backend's id of an instruction -> debug handles of its nodes."""
        return self.delegate.debug_handle_map

    def blob_bytes(self) -> bytes:
        """Returns a copy of the blob, weights included."""
        return self.delegate.blob_bytes()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the program. In eager mode, the backend's reference executor runs the delegate.

        Args:
            *args: of the program.
            **kwargs: of the program.

        Returns:
            The program's results.

        Raises:
            ValueError: wrong number of values in the arguments.
        """
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if len(leaves) != len(self._user_inputs):
            wanted = ", ".join(self._user_inputs)
            raise ValueError(f"takes {len(self._user_inputs)} inputs ({wanted}), got {len(leaves)}: {spec}")
        inputs: dict[str, Any] = dict(zip(self._user_inputs, leaves, strict=True))
        state = {name: getattr(self, attribute) for name, attribute in self._state.items()}
        values = {**inputs, **self._constants, **state}
        outputs = self.delegate(*[values[name] for name in self._delegate_inputs])
        values.update(zip(self._delegate_outputs, outputs, strict=True))
        results = [values[result] if is_node else result for is_node, result in self._results]
        self._write(inputs, results)
        returned = [
            result
            for result, (kind, _) in zip(results, self._kinds, strict=True)
            if kind is OutputKind.USER_OUTPUT
        ]
        return pytree.tree_unflatten(returned, self.original_program.out_spec)

    def _write(self, inputs: dict[str, Any], results: Sequence[Any]) -> None:
        """Writes the new values of buffers and inputs."""
        for result, (kind, target) in zip(results, self._kinds, strict=True):
            if kind is OutputKind.USER_INPUT_MUTATION:
                inputs[str(target)].copy_(result)
            elif kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                getattr(self, self._written[str(target)]).copy_(result)

    def __repr__(self) -> str:
        """Backend, size, settings, and the original program as text."""
        text = print_program(self.original_program).rstrip().replace("\n", "\n  ")
        return f"LoweredProgram(\n  {self.delegate.title}\n  {text}\n)"
