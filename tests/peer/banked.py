# SPDX-License-Identifier: Apache-2.0
"""The memory planner for several memories in ExecuTorch's wheel of 1.5.1, without the rest of its compiler.

The modules below, which the planner imports for other purposes, need packages that no test has.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

# Module -> the names that the planner imports and does not use.
_UNUSED: Final = {
    "executorch.exir.control_flow": ("while_loop",),
    "executorch.exir.delegate": ("executorch_call_delegate",),
    "executorch.exir.passes.memory_planning_pass": ("MemoryPlanningPass",),
}
_PLANNER: Final = "executorch/exir/banked_memory_planning.py"


class Planner:
    """`banked_greedy` of the wheel, which is in a directory of `sys.path`."""

    def __init__(self) -> None:
        root = next(Path(each) for each in sys.path if Path(each, _PLANNER).exists())
        before = {name: module for name, module in sys.modules.items() if name.startswith("executorch")}
        for name in before:
            del sys.modules[name]
        for name, path in (("executorch", "executorch"), ("executorch.exir", "executorch/exir")):
            _add(name, __path__=[str(root / path)])
        for name, unused in _UNUSED.items():
            _add(name, **dict.fromkeys(unused, object))
        _add("executorch.exir.passes", __path__=[])
        from executorch.exir import banked_memory_planning, tensor

        self._module: Any = banked_memory_planning
        self._spec: Any = tensor.TensorSpec
        for name in [name for name in sys.modules if name.startswith("executorch")]:
            del sys.modules[name]
        sys.modules.update(before)

    def plan(
        self, sizes: Sequence[int], lifetimes: Sequence[tuple[int, int]], capacities: Sequence[int]
    ) -> list[tuple[int, int]] | None:
        """Plans storages.

        Args:
            sizes: their bytes.
            lifetimes: the first and the last instruction of each.
            capacities: bytes of each memory, the preferred first.

        Returns:
            The memory of each, from 0, and its offset there; None if they do not fit.
        """
        banks = [
            self._module.Bank(f"memory_{index}", size, index + 1) for index, size in enumerate(capacities)
        ]
        algorithm = self._module.BankedGreedy(self._module.TargetMemoryMap(banks))
        specs = []
        for size, lifetime in zip(sizes, lifetimes, strict=True):
            spec = self._spec(torch.uint8, torch.Size([size]))
            spec.lifetime = list(lifetime)
            specs.append(spec)
        graph = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        try:
            found = algorithm(16, specs, graph)
        except self._module.BankPlacementError:
            return None
        placed = [found.spec_dict[spec] for spec in specs]
        return [(each.mem_id - 1, each.mem_offset) for each in placed]


def _add(name: str, **attributes: Any) -> None:
    module = ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
