# SPDX-License-Identifier: Apache-2.0
"""A compiled partition as a module, and the call that stands for it in the owner's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from delegatec.delegation.backend import ReferenceExecutor
from delegatec.delegation.compile_spec import CompileSpec
from delegatec.delegation.mapping import DebugHandleMap


class LoweredModule(torch.nn.Module):
    """A delegate: blob, settings, and what it was made of. Calling it runs the blob on the host.

    Args:
        backend_id: id of the backend that made it.
        blob: parts of the blob.
        compile_specs: settings it was made with.
        original: text of the nodes that it stands for, one a line.
        debug_handle_map: the backend's id of an instruction -> debug handles of its nodes.
        debug_handles: debug handles of all its nodes, sorted.
        reference: makes the reference executor; called at the first call of the module.

    Attributes:
        name: name of the `get_attr` node and of the owner's attribute; empty for a whole program.
    """

    def __init__(
        self,
        *,
        backend_id: str,
        blob: Sequence[bytes | memoryview],
        compile_specs: Sequence[CompileSpec],
        original: Sequence[str],
        debug_handle_map: DebugHandleMap,
        debug_handles: Sequence[int],
        reference: Callable[[memoryview, Sequence[CompileSpec]], ReferenceExecutor],
    ) -> None:
        super().__init__()
        self.backend_id = backend_id
        self.blob = tuple(blob)
        self.compile_specs = tuple(compile_specs)
        self.original = tuple(original)
        self.debug_handle_map = debug_handle_map
        self.debug_handles = tuple(debug_handles)
        self.name = ""
        self._reference = reference
        self._executor: ReferenceExecutor | None = None

    @property
    def blob_size(self) -> int:
        """Size of the blob in bytes."""
        return sum(len(part) for part in self.blob)

    def blob_bytes(self) -> bytes:
        """The blob in one piece: a copy, weights included."""
        return b"".join(self.blob)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the blob with the backend's reference executor, from the blob alone.

        Args:
            *inputs: the delegate's inputs, in order.

        Returns:
            Its outputs, in order.
        """
        if self._executor is None:
            self._executor = self._reference(memoryview(self.blob_bytes()), self.compile_specs)
        return tuple(self._executor(inputs))

    def extra_repr(self) -> str:
        """What `print` shows of it."""
        return f"backend_id={self.backend_id!r}, blob_size={self.blob_size}, nodes={len(self.original)}"


def call_delegate(lowered: LoweredModule, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Calls a delegate: the target of the node that stands for it in a graph.

    Args:
        lowered: the delegate; in a graph, the `get_attr` node that names it.
        *inputs: its inputs, in order.

    Returns:
        Its outputs, in order; in a graph, read by `operator.getitem`.
    """
    outputs: tuple[torch.Tensor, ...] = lowered(*inputs)
    return outputs
