# SPDX-License-Identifier: Apache-2.0
"""A runtime whose VGF delegates run in Arm's scenario runner, and all else in the compiler's interpreter.

ExecuTorch 1.5.1 has no `VgfBackend`, and that of 1.4.1 needs the newer libc of a driver.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch

from delegatec.backends import builtin_backends
from delegatec.backends.arm.dtypes import STORED
from delegatec.backends.arm.operators.rewrites import REWRITES
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.arm.vgf.backend import CODEC, VGF, VgfBackend
from delegatec.backends.arm.vgf.container import read_container
from delegatec.backends.arm.vgf.reader import read_graph
from delegatec.delegation import BackendRegistry, CompileSpec, ReferenceExecutor
from delegatec.program.reader import read_flat_tensors, read_program
from delegatec.verify import executors
from vgf_runtime.device import Device, installed
from vgf_runtime.scenario import run_scenario


class GraphExecutor(ReferenceExecutor):
    """Runs a VGF file in the scenario runner: a process for each call.

    Args:
        device: where.
        blob: the file.
    """

    converts_outputs = True
    lacks_scalars = True

    def __init__(self, device: Device, blob: memoryview) -> None:
        graph, container = read_graph(blob), read_container(blob)
        self.num_inputs = len(graph.inputs)
        self._device = device
        self._inputs, self._outputs = (
            [
                (binding, STORED[value.dtype], container.shapes[binding])
                for binding, value in zip(bindings, values, strict=True)
            ]
            for bindings, values in (
                (container.inputs, graph.inputs),
                (container.outputs, graph.outputs),
            )
        )
        folder = tempfile.TemporaryDirectory(prefix="vgf-")
        weakref.finalize(self, folder.cleanup)
        self._file = Path(folder.name, "graph.vgf")
        self._file.write_bytes(blob)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph.

        Raises:
            RuntimeError: the runner fails.
        """
        given = [
            (binding, value.to(dtype).reshape(shape))
            for (binding, dtype, shape), value in zip(self._inputs, inputs, strict=True)
        ]
        with tempfile.TemporaryDirectory(prefix="vgf-") as folder:
            found = run_scenario(self._device, Path(folder), self._file, given, self._outputs)
        return [value if value.dim() else value.reshape(1) for value in found]


class _Graphs(VgfBackend):
    def __init__(self, device: Device) -> None:
        super().__init__(VGF.name, CODEC, TABLE, REWRITES)
        self._device = device

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`."""
        return GraphExecutor(self._device, blob)


class VgfRuntime:
    """See `delegatec.verify.runtime.Runtime`."""

    name = "Arm's scenario runner"
    backends = (VGF.id,)

    @cached_property
    def device(self) -> Device:
        """The device of this process."""
        return installed()

    def load(self, pte: str, ptd: str | None, shares_state: bool) -> executors.ReferenceExecutor:
        """Loads a program.

        Raises:
            RuntimeError: there is no device.
            DelegatecError: the program cannot run.
        """
        if self.device.missing:
            raise RuntimeError(f"there is no Vulkan device: {self.device.missing}")
        program = read_program(pte)
        names = [method.name for method in program.methods]
        data = read_flat_tensors(ptd).entries if ptd is not None else {}
        vgf = _Graphs(self.device)
        registry = BackendRegistry([vgf if each.name == vgf.name else each for each in builtin_backends()])
        return executors.ReferenceExecutor(program, names, registry, data)


RUNTIME: Final[Any] = VgfRuntime()
