# SPDX-License-Identifier: Apache-2.0
"""A delegate as a module that can be called in eager mode, printed and exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from delegatec.delegation import plugins
from delegatec.delegation.delegates.call_delegate import allow_strict_export, call_delegate
from delegatec.delegation.delegates.original import Original
from delegatec.delegation.protocol.backend import Backend, NamedData
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.estimates import Estimates
from delegatec.delegation.protocol.mapping import DebugHandleMap
from delegatec.delegation.protocol.parts import Part, join
from delegatec.diagnostics.notes import Note
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram


class LoweredModule(torch.nn.Module):
    """A delegate: blob, settings, and original nodes.

    Calling it runs the blob on the host. A module that holds one can be exported by torch.export: the call
    stays one `call_delegate`, through every later lowering.

    Args:
        backend: the backend, whose reference executor runs it.
        blob: parts of the blob.
        compile_specs: settings of the backend.
        original: the nodes that it replaces.
        debug_handle_map: the backend's id of an instruction -> debug handles of its nodes.
        debug_handles: debug handles of all its nodes, sorted.
        named_data: key -> data that is stored next to the blob.
        constant_names: id of a constant in the blob's graph -> its fully qualified name in the model.
        estimates: of its speed and memory, if they are known.
        inline: whether programs store the blob inside their FlatBuffer.
        notes: of the backend, for the user.

    Attributes:
        name: name of the `get_attr` node and of the owner's attribute; empty while it has no owner.
    """

    def __init__(
        self,
        *,
        backend: Backend,
        blob: Sequence[Part],
        compile_specs: Sequence[CompileSpec],
        original: Original,
        debug_handle_map: DebugHandleMap,
        debug_handles: Sequence[int],
        named_data: Mapping[str, NamedData] | None = None,
        constant_names: Mapping[int, str] | None = None,
        estimates: Estimates | None = None,
        inline: bool = False,
        notes: Sequence[Note] = (),
    ) -> None:
        super().__init__()
        self.backend_id = backend.id
        self.blob = tuple(blob)
        self.compile_specs = list(compile_specs)
        self.original = original
        self.debug_handle_map = debug_handle_map
        self.debug_handles = tuple(debug_handles)
        self.named_data = dict(named_data or {})
        self.constant_names = dict(constant_names or {})
        self.estimates = estimates
        self.inline = inline
        self.notes = tuple(notes)
        self.name = ""
        self._backend = backend
        self._executor: plugins.CheckedExecutor | None = None
        allow_strict_export()

    @property
    def original_program(self) -> EdgeProgram:
        """The original nodes as a separate program with the delegate's inputs and outputs."""
        return self.original.program

    @property
    def blob_size(self) -> int:
        """Size of the blob in bytes."""
        return sum(len(part) for part in self.blob)

    def orders_boundary(self, value: torch.Tensor) -> bool:
        """See `Backend.orders_boundary`."""
        return plugins.call(Backend.orders_boundary, self._backend, value)

    def blob_bytes(self) -> bytes:
        """Returns a copy of the blob, weights included."""
        return join(self.blob)

    def forward(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        """Calls the delegate; in eager mode, the backend's reference executor runs the blob.

        Args:
            *inputs: the delegate's inputs, in order.

        Returns:
            Its outputs, in order.
        """
        return call_delegate(self, *inputs)

    def infer(self, mode: FakeTensorMode, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """See `Original.infer`."""
        return self.original.infer(mode, inputs)

    def run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the blob on real tensors, made contiguous: the delegate's inputs to its outputs, in order."""
        if self._executor is None:
            named = {key: memoryview(join([item.data])) for key, item in self.named_data.items()}
            blob = memoryview(self.blob_bytes())
            self._executor = plugins.executor(self._backend, blob, self.compile_specs, named)
        with torch.no_grad():
            results = self._executor([_contiguous(value) for value in inputs])
        wanted = [node.meta["val"] for node in self.original.outputs]
        return tuple(
            self._executor.for_caller(value, each.dtype, each.dim())
            for value, each in zip(results, wanted, strict=True)
        )

    def _get_name(self) -> str:
        return "LoweredModule"

    def extra_repr(self) -> str:
        """Returns the text for `print`."""
        return f"{self.title}\n{print_program(self.original_program).rstrip()}"

    @property
    def title(self) -> str:
        """Backend, size and settings, in one line."""
        specs = ", ".join(f"{spec.key}={spec.value!r}" for spec in self.compile_specs)
        return f"{self.backend_id}, blob of {self.blob_size} B, settings: {specs or 'none'}"

    # Attributes that torch.export requires of a module in a program; see below.
    @property
    def processed_bytes(self) -> bytes:
        """A copy of the blob."""
        return self.blob_bytes()

    @property
    def original_module(self) -> EdgeProgram:
        """The original nodes as a program."""
        return self.original_program


def _contiguous(value: Any) -> Any:
    """Makes a tensor contiguous; returns scalars unchanged."""
    return value.contiguous() if isinstance(value, torch.Tensor) else value


# torch.export recognizes delegates by the name of their class and four attributes that are the same in
# ExecuTorch (torch/_export/verifier.py, torch 2.13); it rejects other modules in a graph.
LoweredModule.__name__ = "LoweredBackendModule"
